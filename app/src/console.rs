//! The pages of the web console, embedded when the program is built.
//!
//! Every view has an address, so each path that is not a file returns the page `index.html`.

use std::io::Read;

use apiserver::answer::Answer;
use apiserver::console::Pages;
use flate2::read::GzDecoder;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, VARY};

/// Names and compressed contents, written by `build.rs`.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/console.rs"));
const PAGE: &str = "index.html";
/// Directory of files whose names contain a hash of their contents.
const ASSETS: &str = "assets/";
const FOREVER: &str = "public, max-age=31536000, immutable";

pub struct Files;

impl Pages for Files {
    fn page(&self, path: &str, accepts_gzip: bool) -> Answer {
        let name = match path {
            path if path.starts_with(ASSETS) || find(path).is_some() => path,
            _ => PAGE,
        };
        match find(name) {
            Some(compressed) => file(name, compressed, accepts_gzip),
            None => Answer::text(404, "404 page not found\n"),
        }
    }
}

fn find(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, compressed)| *compressed)
}

fn file(name: &str, compressed: &'static [u8], accepts_gzip: bool) -> Answer {
    let answer = match accepts_gzip {
        true => Answer::of(200, content_type(name), compressed).with(CONTENT_ENCODING, "gzip"),
        false => {
            let mut plain = Vec::new();
            if let Err(error) = GzDecoder::new(compressed).read_to_end(&mut plain) {
                return Answer::text(500, format!("{name} is damaged: {error}\n"));
            }
            Answer::of(200, content_type(name), plain)
        }
    };
    let answer = answer.with(VARY, "Accept-Encoding");
    match name.starts_with(ASSETS) {
        true => answer.with(CACHE_CONTROL, FOREVER),
        false => answer,
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_the_page_and_missing_assets_are_missing() {
        for path in ["", "overview", "o/pods/default/a", "code"] {
            let answer = Files.page(path, true);
            assert_eq!((answer.code, answer.content_type), (200, "text/html; charset=utf-8"));
        }
        let scripts = FILES.iter().filter(|(name, _)| name.ends_with(".js"));
        assert!(scripts.count() > 0, "every build embeds the console");
        assert_eq!(Files.page("assets/none.js", true).code, 404);
    }
}

//! The files of the console, as they were when the program was built.
//!
//! Views are addresses, so every path that is no file is the one page that shows them all.

use std::io::Read;

use apiserver::answer::Answer;
use apiserver::console::Pages;
use flate2::read::GzDecoder;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, VARY};

/// Names and compressed contents, made by `build.rs`.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/console.rs"));
const PAGE: &str = "index.html";
/// Below it names change with contents.
const ASSETS: &str = "assets/";
const FOREVER: &str = "public, max-age=31536000, immutable";

/// What is shown where the program was built without its console. It has no style of its own,
/// because the policy of the console allows none in a page.
const MISSING: &str = "<!doctype html><html lang=en><head><meta charset=utf-8>\
    <meta name=viewport content=\"width=device-width\"><title>Setpoint</title></head><body><main>\
    <h1>The console is not in this build</h1>\
    <p>Build it, and then the program again:</p>\
    <pre>cargo xtask console\ncargo build --release</pre>\
    <p>It needs Node.js 20.19 or newer. Everything else works without it: \
    <code>setpoint status</code>, <code>kubectl get all -A</code>.</p></main></body></html>\n";

pub struct Files;

impl Pages for Files {
    fn page(&self, path: &str, accepts_gzip: bool) -> Answer {
        let name = match path {
            path if path.starts_with(ASSETS) || find(path).is_some() => path,
            _ => PAGE,
        };
        match find(name) {
            Some(compressed) => file(name, compressed, accepts_gzip),
            None if name == PAGE => Answer::of(200, "text/html; charset=utf-8", MISSING),
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
        assert_eq!(Files.page("assets/none.js", true).code, 404);
    }
}

//! The documentation as a site: HTML made of the pages when somebody asks for one. It has no
//! script, loads nothing from elsewhere, and works without a style as well.

use apiserver::answer::Answer;
use apiserver::console::Pages;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use super::{PAGES, Page, find};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = include_str!("style.css");

pub struct Site;

impl Pages for Site {
    fn page(&self, path: &str, _accepts_gzip: bool) -> Answer {
        match path {
            "" => Answer::of(200, HTML, whole("Documentation", None, &contents())),
            "style.css" => Answer::of(200, "text/css; charset=utf-8", STYLE),
            name => match find(name) {
                Some(page) => Answer::of(200, HTML, whole(title(page), Some(page), &body(page))),
                None => {
                    let text = "<h1>There is no such page</h1><p>These are all:</p>";
                    let text = format!("{text}{}", list());
                    Answer::of(404, HTML, whole("No such page", None, &text))
                }
            },
        }
    }
}

/// The first heading.
fn title(page: &Page) -> &'static str {
    page.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(page.name)
}

fn contents() -> String {
    format!("<h1>Documentation</h1>{}", list())
}

fn list() -> String {
    let row = |page: &Page| {
        format!("<li><a href=\"{}\">{}</a>: {}</li>", page.name, title(page), page.about)
    };
    format!("<ul>{}</ul>", PAGES.iter().map(row).collect::<String>())
}

/// What stands around the text of every page.
fn whole(title: &str, shown: Option<&Page>, text: &str) -> String {
    let entry = |page: &Page| {
        let is_shown = shown.is_some_and(|shown| shown.name == page.name);
        let current = if is_shown { " aria-current=page" } else { "" };
        format!("<li><a href=\"{}\"{current}>{}</a></li>", page.name, self::title(page))
    };
    let entries: String = PAGES.iter().map(entry).collect();
    format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width\"><title>{title} · Setpoint</title>\
         <link rel=stylesheet href=style.css></head><body>\
         <a class=skip href=\"#text\">Skip to the text</a>\
         <nav aria-label=Pages><a href=\"./\">Setpoint</a><ul>{entries}</ul></nav>\
         <main id=text>\n{text}</main></body></html>\n"
    )
}

/// The text of a page. Links to other pages lead to them, and links to files that only the tree has
/// are words.
fn body(page: &Page) -> String {
    let mut events = Vec::new();
    let mut is_word = false;
    for event in Parser::new_ext(page.text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match target(&dest_url) {
                Some(dest_url) => {
                    events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
                }
                None => is_word = true,
            },
            Event::End(TagEnd::Link) if is_word => is_word = false,
            // A table may be wider than the screen; it is moved with the keyboard as well.
            Event::Start(Tag::Table(columns)) => {
                events.push(Event::Html("<div class=wide tabindex=0>".into()));
                events.push(Event::Start(Tag::Table(columns)));
            }
            Event::End(TagEnd::Table) => {
                events.push(event);
                events.push(Event::Html("</div>".into()));
            }
            Event::End(TagEnd::Heading(_)) => {
                name_heading(&mut events);
                events.push(event);
            }
            event => events.push(event),
        }
    }
    let mut text = String::new();
    html::push_html(&mut text, events.into_iter());
    text
}

/// Where a link leads in the site, if anywhere.
fn target<'a>(url: &CowStr<'a>) -> Option<CowStr<'a>> {
    if url.starts_with("https://") || url.starts_with("http://") || url.starts_with('#') {
        return Some(url.clone());
    }
    let (file, place) = url.split_once('#').unwrap_or((url, ""));
    let page = find(file)?;
    match place {
        "" => Some(page.name.into()),
        place => Some(format!("{}#{place}", page.name).into()),
    }
}

/// Gives the heading that ends here an id of its words, so that it can be linked to.
fn name_heading(events: &mut [Event<'_>]) {
    let is_start = |event: &Event<'_>| matches!(event, Event::Start(Tag::Heading { .. }));
    let Some(start) = events.iter().rposition(is_start) else { return };
    let words = events[start..].iter().filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) => Some(&**text),
        _ => None,
    });
    let words: String = words.collect::<String>().to_lowercase();
    let name = words.chars().filter_map(|letter| match letter {
        ' ' | '-' => Some('-'),
        letter => letter.is_alphanumeric().then_some(letter),
    });
    let name: String = name.collect();
    if let Event::Start(Tag::Heading { id, .. }) = &mut events[start] {
        *id = Some(name.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> (u16, String) {
        let answer = Site.page(path, false);
        let apiserver::answer::Content::Whole(bytes) = answer.body else { panic!("{path}") };
        (answer.code, String::from_utf8(bytes.to_vec()).expect("a page is text"))
    }

    /// The values of an attribute, quoted or not.
    fn values<'a>(text: &'a str, attribute: &str) -> Vec<&'a str> {
        let after = text.split(attribute).skip(1);
        after
            .map(|rest| match rest.strip_prefix('"') {
                Some(rest) => rest.split('"').next().unwrap_or_default(),
                None => rest.split(['>', ' ']).next().unwrap_or_default(),
            })
            .collect()
    }

    #[test]
    fn every_link_of_every_page_leads_somewhere_and_nothing_is_loaded_from_elsewhere() {
        let names = PAGES.iter().map(|page| page.name);
        for name in names.chain([""]) {
            let (code, text) = shown(name);
            assert_eq!(code, 200, "{name}");
            assert!(!text.contains("<script") && !text.contains(" src="), "{name}: {text}");
            for link in values(&text, "href=") {
                let (page, place) = link.split_once('#').unwrap_or((link, ""));
                let is_outside = link.starts_with("http");
                let page = page.trim_start_matches("./");
                assert!(is_outside || shown(page).0 == 200, "{name}: {link}");
                assert!(!page.ends_with(".md"), "{name}: {link}");
                let has_place = place.is_empty() || text.contains(&format!("id=\"{place}\""));
                assert!(is_outside || page != name || has_place || place == "text", "{link}");
            }
        }
    }

    #[test]
    fn a_page_is_html_with_a_title_and_headings_that_can_be_linked_to() {
        let (_, text) = shown("getting-started");
        assert!(text.contains("<title>Getting started · Setpoint</title>"), "{text}");
        assert!(text.contains("<h2 id=\"a-cluster\">A cluster</h2>"), "{text}");
        assert!(text.contains("aria-current=page>Getting started</a>"), "{text}");
        assert!(text.contains("<pre><code class=\"language-sh\">"), "{text}");
        assert!(shown("configuration.md").1.contains("<table>"));
        let (code, text) = shown("nothing");
        assert!(code == 404 && text.contains("href=\"training\""), "{text}");
    }
}

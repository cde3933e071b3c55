//! How results and errors are printed: results to stdout as text or JSON, errors as one line.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one object on one line.
    Json,
    /// For programs and people.
    Yaml,
    /// For people, with more columns where there are more.
    Wide,
    /// Only what it is called, a line each.
    Name,
}

#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub format: Format,
}

impl Output {
    /// Prints a result: its text, or its fields.
    pub fn print(&self, result: &(impl Display + Serialize)) -> io::Result<()> {
        let line = match self.format {
            Format::Text => format!("{result}\n"),
            Format::Json => format!("{}\n", serde_json::to_string(result)?),
            Format::Yaml => yaml(result)?,
            Format::Wide => format!("{result:#}\n"),
            Format::Name => names(&serde_json::to_value(result)?),
        };
        let mut stdout = io::stdout().lock();
        stdout.write_all(line.as_bytes())?;
        stdout.flush()
    }

    /// Prints one sentence, or what it says as an object.
    pub fn tell(&self, sentence: &str, object: &Value) -> io::Result<()> {
        self.print(&Told { sentence, object })
    }

    /// Whether people read it.
    pub fn is_for_people(&self) -> bool {
        matches!(self.format, Format::Text | Format::Wide)
    }
}

struct Told<'a> {
    sentence: &'a str,
    object: &'a Value,
}

impl Display for Told<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.sentence)
    }
}

impl Serialize for Told<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

/// What things are called: `kind/name` where they say their kind.
fn names(value: &Value) -> String {
    names_of(value, value["kind"].as_str().and_then(|kind| kind.strip_suffix("List")))
}

/// The same; items of a list may leave to it what they are.
fn names_of(value: &Value, usual: Option<&str>) -> String {
    let items = value.as_array().or_else(|| value["items"].as_array());
    if let Some(items) = items {
        return items.iter().map(|item| names_of(item, usual)).collect();
    }
    let name = value["name"].as_str().or_else(|| value["metadata"]["name"].as_str());
    match (name, value["kind"].as_str().or(usual)) {
        (Some(name), Some(kind)) => format!("{}/{name}\n", kind.to_lowercase()),
        (Some(name), None) => format!("{name}\n"),
        (None, _) => String::new(),
    }
}

/// When there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal that has them.
    #[default]
    Auto,
    Always,
    Never,
}

/// What the command line says; asked for where things are written.
static COLOUR: OnceLock<Colour> = OnceLock::new();

/// Keeps what the command line says about colours, for the whole program.
pub fn choose_colour(colour: Colour) {
    let _ = COLOUR.set(colour);
}

/// Whether only results and errors are wanted.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// From now on nothing is said beside results and errors.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Whether it should be said how things go.
pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Says how things go, beside the results; nothing where that is not wanted.
pub fn remark(line: impl Display) {
    if !is_quiet() {
        eprintln!("{line}");
    }
}

/// Whether what goes to a stream has colours.
pub fn has_colours(stream: &impl IsTerminal) -> bool {
    let colour = COLOUR.get().copied().unwrap_or_default();
    are_wanted(colour, stream.is_terminal(), |name| env::var_os(name))
}

/// The option wins, then NO_COLOR, then what forces them, then the terminal.
fn are_wanted(
    colour: Colour,
    is_terminal: bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|it| !it.is_empty() && it != "0");
    match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto if variable("NO_COLOR").is_some_and(|it| !it.is_empty()) => false,
        Colour::Auto if is_set("CLICOLOR_FORCE") || is_set("FORCE_COLOR") => true,
        Colour::Auto => is_terminal && variable("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// Whether a terminal may be drawn on: a person watches it, and it can move its cursor.
pub fn can_be_drawn_on(stream: &impl IsTerminal) -> bool {
    let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    let is_ci = env::var_os("CI").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !is_dumb && !is_ci
}

/// How many columns the terminal of a stream has; `None` where it is none.
#[expect(unsafe_code, reason = "std does not ask terminals for their size")]
pub fn width(stream: &impl AsRawFd) -> Option<usize> {
    let descriptor = stream.as_raw_fd();
    // SAFETY: all zeros are a size, and the call writes no more than one into it.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        match libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size) {
            0 => size,
            _ => return None,
        }
    };
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// A result as a document of YAML.
pub fn yaml(result: &impl Serialize) -> io::Result<String> {
    // Long texts stay on their lines, as kubectl leaves them.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(result, options).map_err(io::Error::other)
}

/// How things are marked as well or not: with ticks for a terminal, with words for a file.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    is_terminal: bool,
    has_colours: bool,
}

impl Marks {
    /// As stdout can show them.
    pub fn of_stdout() -> Marks {
        Marks::of(&io::stdout())
    }

    /// As a stream can show them.
    pub fn of(stream: &impl IsTerminal) -> Marks {
        let has_colours = has_colours(stream);
        Marks { is_terminal: stream.is_terminal() || has_colours, has_colours }
    }

    pub fn well(self) -> &'static str {
        self.choose("ok  ", "✓", "\x1b[32m✓\x1b[0m")
    }

    /// It works, but not as well as it could.
    pub fn so_so(self) -> &'static str {
        self.choose("note", "!", "\x1b[33m!\x1b[0m")
    }

    pub fn unwell(self) -> &'static str {
        self.choose("fail", "✗", "\x1b[31m✗\x1b[0m")
    }

    fn choose(
        self,
        word: &'static str,
        tick: &'static str,
        coloured: &'static str,
    ) -> &'static str {
        match (self.is_terminal, self.has_colours) {
            (false, _) => word,
            (true, false) => tick,
            (true, true) => coloured,
        }
    }
}

/// An error and what caused it, on one line.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let said = answer(cause);
        let is_answer = said.is_some();
        let text = said.unwrap_or_else(|| cause.to_string());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Some libraries repeat the cause in their own message.
        if !line.contains(&text) {
            line.push_str(if line.is_empty() { "" } else { ": " });
            line.push_str(&text);
        }
        if is_answer {
            break;
        }
    }
    line
}

/// What a server says, if a cause is its answer: the rest of it is how answers are built.
fn answer(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    let boxed = cause.downcast_ref::<Box<kube::Error>>().map(|boxed| &**boxed);
    match cause.downcast_ref::<kube::Error>().or(boxed)? {
        kube::Error::Api(status) if !status.message.is_empty() => Some(status.message.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_and_says_nothing_twice() {
        let error =
            anyhow::anyhow!("refused\n  by peer").context("could not ask: `refused by peer'");
        assert_eq!(one_line(&error), "could not ask: `refused by peer'");
        let error = anyhow::anyhow!("refused").context("could not ask");
        assert_eq!(one_line(&error), "could not ask: refused");
        let status = kube::core::Status::failure("not in this season", "Forbidden").with_code(403);
        let answer = kube::Error::Api(Box::new(status));
        let error = reconcile::Error::request("apply x", answer);
        let error = anyhow::Error::new(error).context("could not make it");
        let line = one_line(&error);
        assert!(line.starts_with("could not make it: ") && line.ends_with(": not in this season"));
        let status = kube::core::Status::failure("it is full", "Forbidden").boxed();
        let error = reconcile::Error::request("ask", kube::Error::Api(status));
        assert_eq!(one_line(&error.into()), "could not ask: it is full");
    }

    #[test]
    fn colours_follow_the_option_then_the_variables_then_the_terminal() {
        let wanted = |colour, is_terminal, set: &[(&str, &str)]| {
            let find = |name: &str| set.iter().find(|(known, _)| *known == name);
            are_wanted(colour, is_terminal, |name| find(name).map(|(_, value)| value.into()))
        };
        let (auto, term) = (Colour::Auto, ("TERM", "xterm"));
        assert!(wanted(auto, true, &[term]) && !wanted(auto, false, &[term]));
        assert!(!wanted(auto, true, &[("TERM", "dumb")]));
        assert!(!wanted(auto, true, &[term, ("NO_COLOR", "1")]));
        assert!(wanted(auto, false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!wanted(auto, false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!wanted(auto, false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
        assert!(wanted(Colour::Always, false, &[("NO_COLOR", "1")]));
        assert!(!wanted(Colour::Never, true, &[("FORCE_COLOR", "1")]));
    }

    #[test]
    fn names_are_a_line_each_with_their_kind_where_it_is_said() {
        let list = serde_json::json!([{"name": "a", "kind": "Pod"}, {"name": "b"}, 3]);
        assert_eq!(names(&list), "pod/a\nb\n");
        let pods = serde_json::json!({"kind": "PodList", "items": [{"metadata": {"name": "a"}}]});
        assert_eq!(names(&pods), "pod/a\n");
    }
}

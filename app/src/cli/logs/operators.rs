//! Log of the operators that run in the server, which keeps the last lines of each.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Logs;
use crate::cli::exit::{self, Failure};
use crate::cli::{Context, small_runtime};
use crate::client;
use crate::directories;
use crate::instance::Instance;
use crate::kept_lines::{Line, PAGE_LINES_MAX};
use crate::operators;
use crate::output::{self, Format};

/// Interval between requests for new lines.
const POLL: Duration = Duration::from_millis(300);

pub fn run(logs: &Logs, names: &[String], context: &Context) -> Result<ExitCode> {
    let data = directories::data(logs.target.data_dir.as_deref())?;
    if Instance::running(&data)?.is_none() {
        eprintln!("no cluster is running on {}; start one with `setpoint up`", data.display());
        return Ok(ExitCode::from(exit::NOT_FOUND));
    }
    small_runtime()?.block_on(show(logs, names, (&data, context.output.format)))?;
    Ok(ExitCode::SUCCESS)
}

/// Place in the log of one operator.
struct Cursor<'a> {
    operator: &'a str,
    after: u64,
    tail: Option<usize>,
}

async fn show(logs: &Logs, names: &[String], (data, format): (&Path, Format)) -> Result<()> {
    let tail = logs.tail.and_then(|tail| usize::try_from(tail).ok());
    let cursor = |name| Cursor { operator: name, after: 0, tail };
    let mut cursors: Vec<Cursor<'_>> = names.iter().map(|name| cursor(name)).collect();
    loop {
        for cursor in &mut cursors {
            while cursor.print_page(data, format).await? == PAGE_LINES_MAX {}
            cursor.tail = None;
        }
        if !logs.follow {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
}

impl Cursor<'_> {
    /// Prints the next lines and returns how many there were.
    async fn print_page(&mut self, data: &Path, format: Format) -> Result<usize> {
        let page = self.read(data).await?;
        let mut out = io::stdout().lock();
        for line in &page {
            match format {
                Format::Text | Format::Wide => writeln!(out, "{line}")?,
                Format::Json => writeln!(out, "{}", serde_json::to_string(line)?)?,
                // Each line is a document, so that a stream of them is valid.
                Format::Yaml => write!(out, "---\n{}", output::yaml(line)?)?,
                Format::Name => bail!(Failure::new(exit::USAGE, "lines of a log have no names")),
            }
        }
        out.flush()?;
        if let Some(last) = page.last() {
            self.after = last.number;
        }
        self.tail = self.tail.map(|tail| tail.saturating_sub(page.len())).filter(|left| *left > 0);
        Ok(page.len())
    }

    async fn read(&self, data: &Path) -> Result<Vec<Line>> {
        let mut path = format!("/logz?operator={}&after={}", self.operator, self.after);
        if let Some(tail) = self.tail {
            path.push_str(&format!("&tail={tail}"));
        }
        let (status, body) = client::get(data, &path).await?;
        if !status.is_success() {
            let said = String::from_utf8_lossy(&body);
            bail!("could not read the log of {}: {}", self.operator, said.trim());
        }
        Ok(serde_json::from_slice(&body)?)
    }
}

/// Names of all operators.
pub fn names() -> Vec<String> {
    let all = operators::ALL.iter().flat_map(|family| family.operators());
    all.map(|operator| operator.name.to_owned()).collect()
}

pub fn help() -> String {
    format!("Log of an operator that runs in the server: {}", names().join(", "))
}

/// Checks the name of an operator.
pub fn known(text: &str) -> Result<String, String> {
    let names = names();
    match names.iter().any(|name| name == text) {
        true => Ok(text.to_owned()),
        false => Err(format!("no operator {text:?}; operators: {}", names.join(", "))),
    }
}

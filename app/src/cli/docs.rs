//! `setpoint docs`: the documentation, as text or in a browser.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::connect::{self, Target};
use super::exit::{self, Failure};
use super::ui;
use super::{Context, small_runtime};
use crate::config::nearest;
use crate::docs::{self, PAGES, Page};

const AFTER_HELP: &str = "\
Examples:
  setpoint docs                        which pages there are
  setpoint docs getting-started        one of them, as Markdown
  setpoint docs training | less
  setpoint docs --browser training     the same in a browser, from the cluster that runs

The pages are in the program. A cluster that runs has them at /docs/ of its API, for everybody.";

/// Read the documentation, without a network.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Docs {
    /// The page; without it, the list of all.
    page: Option<String>,

    /// Open it in a browser, from the cluster that runs; the address is printed.
    #[arg(long)]
    browser: bool,

    #[command(flatten)]
    target: Target,
}

impl Docs {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let page = match &self.page {
            Some(wanted) => Some(docs::find(wanted).ok_or_else(|| missing(wanted))?),
            None => None,
        };
        if self.browser {
            return self.open(page, context);
        }
        let Some(page) = page else {
            context.output.print(&Contents { pages: PAGES })?;
            return Ok(ExitCode::SUCCESS);
        };
        let object = json!({"name": page.name, "text": page.text});
        context.output.tell(page.text.trim_end(), &object)?;
        Ok(ExitCode::SUCCESS)
    }

    fn open(&self, page: Option<&Page>, context: &Context) -> Result<ExitCode> {
        let config = small_runtime()?.block_on(connect::config(&self.target))?;
        let server = config.cluster_url.to_string();
        let name = page.map_or("", |page| page.name);
        let url = format!("{}/docs/{name}", server.trim_end_matches('/'));
        let browser = ui::show(Path::new(&url));
        context.output.tell(&url, &json!({"url": url, "browser": browser}))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn missing(wanted: &str) -> anyhow::Error {
    let names: Vec<&str> = PAGES.iter().map(|page| page.name).collect();
    let hint = match nearest(wanted, &names) {
        Some(name) => format!("did you mean `setpoint docs {name}`?"),
        None => "`setpoint docs` lists all".to_owned(),
    };
    anyhow!(Failure::new(exit::NOT_FOUND, format!("there is no page {wanted}")).hint(hint))
}

#[derive(Serialize)]
#[serde(transparent)]
struct Contents {
    pages: &'static [Page],
}

impl fmt::Display for Contents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.pages.iter().map(|page| page.name.len()).max().unwrap_or(0);
        let line = |page: &Page| format!("{:widest$}  {}", page.name, page.about);
        formatter.write_str(&self.pages.iter().map(line).collect::<Vec<_>>().join("\n"))
    }
}

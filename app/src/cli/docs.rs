//! `setpoint docs`: the pages of docs/, which the program carries with it.

use std::fmt;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::Context;
use super::exit::{self, Failure};
use crate::config::nearest;

const AFTER_HELP: &str = "\
Examples:
  setpoint docs                        which pages there are
  setpoint docs getting-started        one of them, as Markdown
  setpoint docs training | less";

macro_rules! pages {
    ($($name:literal: $about:literal),+ $(,)?) => {
        &[$(Page {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../../docs/", $name, ".md")),
        }),+]
    };
}

/// Every page for people who use the program.
const PAGES: &[Page] = pages! {
    "getting-started": "a cluster on this machine, a pod, a service, a rollout",
    "training": "training jobs, from a script to a failed rank",
    "inference": "graphs of model servers",
    "machines": "virtual machines",
    "console": "the web console",
    "storage": "the stores, and several nodes on one of them",
    "history": "what changed and why, undo, plans, exports",
    "operators": "the operators on a cluster that you have already",
    "configuration": "the file, the variables, every key",
    "errors": "what the code behind a message means",
    "compatibility": "what of Kubernetes is served, and what is not",
    "benchmarks": "every figure, and how to measure it again",
    "extending": "a controller, a backend, a runtime, a plugin of your own",
};

/// Read the documentation, without a network.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Docs {
    /// The page; without it, the list of all.
    page: Option<String>,
}

impl Docs {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let Some(wanted) = &self.page else {
            context.output.print(&Contents { pages: PAGES })?;
            return Ok(ExitCode::SUCCESS);
        };
        let wanted = wanted.strip_suffix(".md").unwrap_or(wanted);
        let page = PAGES.iter().find(|page| page.name == wanted);
        let page = page.ok_or_else(|| missing(wanted))?;
        let object = json!({"name": page.name, "text": page.text});
        context.output.tell(page.text.trim_end(), &object)?;
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
struct Page {
    name: &'static str,
    about: &'static str,
    #[serde(skip)]
    text: &'static str,
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

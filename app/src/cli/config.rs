//! `setpoint config`: what is configured, and where each value came from.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::{Context, kubectl};
use crate::config::origin::{self, Setting};
use crate::config::{self, StoreKind, reference};
use crate::output;

const AFTER_HELP: &str = "\
Examples:
  setpoint config show --origin           every value, and which file and line says it
  setpoint config reference               every key with its default and what it means
  setpoint config get-contexts            anything else is kubectl's";

/// Show what is configured.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show the effective configuration.
    Show(Show),
    /// Every key, its default and what it means, as a table for documents.
    Reference,
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

#[derive(Args)]
struct Show {
    /// Say where each value came from.
    #[arg(long)]
    origin: bool,

    /// The configuration file. Else the one that would be read.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// As it would be with this option of `up` and `start`.
    #[arg(long, value_name = "memory|embedded|mysql|etcd", hide_possible_values = true)]
    store: Option<StoreKind>,

    /// Show passwords as they are.
    #[arg(long)]
    secrets: bool,
}

#[derive(Serialize)]
struct Report {
    source: String,
    settings: Vec<Setting>,
    #[serde(skip)]
    with_origin: bool,
}

impl Config {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        match &self.action {
            Action::Show(show) => show.run(context),
            Action::Reference => {
                let text = reference::table();
                let rows = reference::rows();
                context.output.tell(text.trim_end(), &serde_json::to_value(rows)?)?;
                Ok(ExitCode::SUCCESS)
            }
            Action::Other(words) => {
                let mut all = vec![OsString::from("config")];
                all.extend(words.iter().cloned());
                kubectl::run(&all, context)
            }
        }
    }
}

impl Show {
    fn run(&self, context: &Context) -> Result<ExitCode> {
        // What is wrong with the file is said as it would be by `up`.
        let loaded = config::load(self.config.as_deref())?;
        for warning in &loaded.remarks.warnings {
            output::remark(format!("warning: {warning}"));
        }
        let mut settings = origin::settings(&loaded.source)?;
        if let Some(store) = self.store {
            origin::overrule(&mut settings, "storage.type", &store.to_string(), "--store");
        }
        if !self.secrets {
            settings.iter_mut().for_each(Setting::hide_secrets);
        }
        let (source, with_origin) = (loaded.source.to_string(), self.origin);
        context.output.print(&Report { source, settings, with_origin })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.settings.iter().map(|one| one.key.len()).max().unwrap_or(0);
        let values = self.settings.iter().map(|one| one.value.chars().count()).max().unwrap_or(0);
        write!(formatter, "# {}", self.source)?;
        for Setting { key, value, origin } in &self.settings {
            match self.with_origin {
                true => write!(formatter, "\n{key:widest$}  {value:values$}  {origin}")?,
                false => write!(formatter, "\n{}", format!("{key:widest$}  {value}").trim_end())?,
            }
        }
        Ok(())
    }
}

//! `setpoint web`: runs the API server, the controllers and a web page.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::Context;
use super::runtime::RuntimeOptions;
use super::serving::{self, Component, Place};
use super::{start, storage};
use crate::components::Components;
use crate::config::{Fallback, WEB_PORT};
use crate::database::Databases;
use crate::python::Python;

const AFTER_HELP: &str = "\
Examples:
  setpoint web                              all parts, and the page on port 8080
  setpoint web --no-controllers             the API and the page; others act on the objects
  setpoint web --web-listen 127.0.0.1:0     on a free port; the line `page` says which

The page tells how everything is and refreshes itself; nothing can be changed through it.";

/// Run the API server, controllers and web page.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Web {
    #[command(flatten)]
    place: Place,

    /// Where the page is. Else web.port of the configuration on 127.0.0.1, or port 8080.
    #[arg(long, value_name = "ADDR:PORT")]
    web_listen: Option<SocketAddr>,

    /// Only serve: others act on the objects.
    #[arg(long)]
    no_controllers: bool,

    #[command(flatten)]
    runtime: RuntimeOptions,
}

impl Web {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let mut plan = self.place.plan(context, Fallback::Example, |loaded| {
            if self.no_controllers {
                return Ok(storage::none());
            }
            Ok(Components {
                controllers: true,
                scheduler: true,
                operators: serving::families(loaded, &[Component::All]),
                node: Some(self.runtime.wanted(loaded)),
                python: Python::choose(None, &loaded.config)?,
                ..storage::none()
            })
        })?;
        let port = plan.loaded.config.web_port.unwrap_or(WEB_PORT);
        let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        plan.page = Some(self.web_listen.unwrap_or(usual));
        plan.databases = Databases::By(self.runtime.wanted(&plan.loaded));
        let _traces = serving::start_log(context, &plan.loaded)?;
        start::serve(plan)
    }
}

//! `setpoint ui`: opens a link that signs a browser in to the web console, once.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use apiserver::identity::key_files::{Privacy, write_atomically};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::connect::{self, Target};
use super::{Context, small_runtime};
use crate::directories;

/// Page in the data directory that redirects a browser to the console.
const DOOR: &str = "console.html";

const AFTER_HELP: &str = "\
Examples:
  setpoint ui                        open the console in a browser, signed in
  setpoint ui --no-browser           only print the link; it works once, for five minutes
  setpoint ui --kubeconfig ada.yaml  sign in as Ada, with her permissions
  setpoint ui -o json | jq -r .url   print the URL for a script

The API server's certificate is issued by the cluster's own authority, so a browser asks once
whether to trust it. Without this command, open /console/ of the API server and sign in with a
token.";

/// Open the web console.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Ui {
    #[command(flatten)]
    target: Target,

    /// Only print the link.
    #[arg(long)]
    no_browser: bool,
}

/// The server's answer to `POST /console/code`.
#[derive(Deserialize)]
struct Code {
    code: String,
    seconds: u64,
    user: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    url: String,
    user: String,
    expires_in_seconds: u64,
    browser: bool,
}

impl Ui {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let mut opened = small_runtime()?.block_on(self.ask())?;
        opened.browser = !self.no_browser && self.open(&opened.url);
        context.output.print(&opened)?;
        Ok(ExitCode::SUCCESS)
    }

    async fn ask(&self) -> Result<Opened> {
        let config = connect::config(&self.target).await?;
        let server = config.cluster_url.to_string();
        let server = server.trim_end_matches('/');
        let client = kube::Client::try_from(config).context("could not use the kubeconfig")?;
        let request = http::Request::post("/console/code").body(Vec::new());
        let request = request.expect("a constant URI is valid");
        let code: Code = match client.request(request).await {
            Ok(code) => code,
            Err(kube::Error::Api(said)) if matches!(said.code, 403..=405) => bail!(
                "{server} does not serve the web console: it is not a Setpoint server, or an older \
                 version; start one with `setpoint up`"
            ),
            Err(error) => {
                let why = format!("could not get a sign-in code from {server}");
                return Err(error).context(why);
            }
        };
        let url = format!("{server}/console/#code={}", code.code);
        Ok(Opened { url, user: code.user, expires_in_seconds: code.seconds, browser: false })
    }

    /// Opens the link through a file that only its owner may read: all users see command lines.
    fn open(&self, url: &str) -> bool {
        if browser().is_none() {
            return false;
        }
        let Ok(data) = directories::data(self.target.data_dir.as_deref()) else { return false };
        let door = data.join(DOOR);
        let page = format!(
            "<!doctype html><meta charset=utf-8><title>Setpoint</title>\
             <meta http-equiv=refresh content=\"0;url={url}\">"
        );
        let written = write_atomically(&door, page.as_bytes(), Privacy::Private);
        written.is_ok() && show(&door)
    }
}

/// The command that opens pages, if there is a display.
fn browser() -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(chosen) = variable("BROWSER") {
        return Some(chosen.into());
    }
    variable("DISPLAY").or_else(|| variable("WAYLAND_DISPLAY")).map(|_| "xdg-open".into())
}

/// Opens a file or a URL in a browser; returns whether one was started.
pub fn show(page: &Path) -> bool {
    let Some(browser) = browser() else { return false };
    let mut command = Command::new(browser);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

impl fmt::Display for Opened {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.expires_in_seconds / 60;
        writeln!(formatter, "{}", self.url)?;
        write!(formatter, "signs {} in; works once, within {minutes} minutes", self.user)?;
        if self.browser {
            write!(formatter, "\nopened in a browser")?;
        }
        Ok(())
    }
}

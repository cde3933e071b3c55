//! Ctrl-C while something is waited for or watched. The work goes on, and it is said how to look
//! again; a second Ctrl-C soon after it cancels what the same command started.

use std::time::Duration;

use tokio::signal::ctrl_c;
use tokio::time::{sleep, timeout};

use crate::output;

/// Whoever presses the key twice in a hurry has not read what the second does.
const HURRY: Duration = Duration::from_millis(300);
/// How long a second Ctrl-C counts.
const SECOND_MAX: Duration = Duration::from_secs(3);

/// What is said at the first Ctrl-C: what goes on, and what shows it again.
pub fn leave(what: &str, again: &str) {
    output::remark(format!("{what} goes on; see `{again}`"));
}

/// Says what a second Ctrl-C does; whether it came.
pub async fn comes_again(does: &str) -> bool {
    output::remark(format!("Ctrl-C again within {} s {does}", SECOND_MAX.as_secs()));
    sleep(HURRY).await;
    matches!(timeout(SECOND_MAX, ctrl_c()).await, Ok(Ok(())))
}

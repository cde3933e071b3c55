//! Ctrl-C during a wait. The object continues in the background, and the command that shows it is
//! printed; a second Ctrl-C soon after it cancels what the same command started.

use std::time::Duration;

use tokio::signal::ctrl_c;
use tokio::time::{sleep, timeout};

use crate::output;

/// A second Ctrl-C before this was pressed without reading what it does.
const HURRY: Duration = Duration::from_millis(300);
/// Time in which a second Ctrl-C counts.
const SECOND_MAX: Duration = Duration::from_secs(3);

/// Prints at the first Ctrl-C what continues, and the command that shows it.
pub fn leave(what: &str, again: &str) {
    output::remark(format!("{what} continues in the background; see `{again}`"));
}

/// Prints what a second Ctrl-C does and returns whether it was pressed.
pub async fn comes_again(does: &str) -> bool {
    output::remark(format!("Ctrl-C again within {} s {does}", SECOND_MAX.as_secs()));
    sleep(HURRY).await;
    matches!(timeout(SECOND_MAX, ctrl_c()).await, Ok(Ok(())))
}

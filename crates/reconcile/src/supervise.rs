//! Starts a component again when it panics or ends, with back-off.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::context::Context;
use crate::health::State;

/// Runs a component until everything is to stop. `start` makes it anew each time.
pub async fn supervise<F>(name: &'static str, context: Context, start: impl Fn(Context) -> F)
where
    F: Future<Output = ()>,
{
    let mut failures = 0;
    let backoff = Backoff::default();
    loop {
        let began = Instant::now();
        let component = AssertUnwindSafe(start(context.clone())).catch_unwind();
        let ended = tokio::select! {
            ended = component => ended,
            () = context.stopping() => return,
        };
        if *context.stop.borrow() {
            return;
        }
        // One that ran for longer than any delay has recovered from what befell it before.
        if began.elapsed() > backoff.max {
            failures = 0;
        }
        failures += 1;
        let what = if ended.is_err() { "panicked" } else { "ended" };
        let delay = backoff.delay(failures, context.environment.random());
        tracing::error!(component = name, ?delay, "the component {what}; starting it again");
        context.metrics.restarted(name);
        context.health.set(name, State::Failing(format!("it {what} and is started again")));
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = context.stopping() => return,
        }
    }
}

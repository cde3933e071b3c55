//! How the program stops: signals, and a group of tasks that end when asked.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{self, SignalKind};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, warn};

/// What a signal asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Stop(SignalKind),
    /// To read again what can change while the program runs.
    Reload,
}

/// The signals that stop us. The second one does not wait.
pub struct Signals {
    hangup: unix::Signal,
    interrupt: unix::Signal,
    terminate: unix::Signal,
    quit: unix::Signal,
}

impl Signals {
    pub fn listen() -> io::Result<Signals> {
        Ok(Signals {
            hangup: unix::signal(SignalKind::hangup())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            quit: unix::signal(SignalKind::quit())?,
        })
    }

    /// Waits for the next one, whatever it asks for.
    pub async fn next_asked(&mut self) -> Asked {
        tokio::select! {
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.interrupt.recv() => Asked::Stop(SignalKind::interrupt()),
            _ = self.terminate.recv() => Asked::Stop(SignalKind::terminate()),
            _ = self.quit.recv() => Asked::Stop(SignalKind::quit()),
        }
    }

    /// Waits for the next one that stops us.
    pub async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.quit.recv() => SignalKind::quit(),
        }
    }
}

/// Ends the program at once, with the exit code a shell gives to a signal.
pub fn exit_at_once(signal: SignalKind) -> ! {
    warn!("asked to stop again: ending at once");
    std::process::exit(128 + signal.as_raw_value())
}

/// Tells a task that it should end.
#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Waits until the task should end.
    pub async fn requested(&mut self) {
        // The group is gone: that is a request as well.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// True from when the task should end.
    pub fn into_receiver(self) -> watch::Receiver<bool> {
        self.0
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }
}

/// The tasks of a group that have not been waited for.
#[derive(Clone, Default)]
pub struct Running(Arc<Mutex<Vec<Named>>>);

/// A task and its name.
type Named = (&'static str, JoinHandle<()>);

impl Running {
    /// Each task, and whether it has ended.
    pub fn states(&self) -> Vec<(&'static str, bool)> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.iter().map(|(name, handle)| (*name, handle.is_finished())).collect()
    }
}

/// A group of named tasks. Each gets a [`Stop`] and ends by itself; what does not is aborted.
pub struct Tasks {
    running: Running,
    stop: watch::Sender<bool>,
}

impl Tasks {
    pub fn new() -> Tasks {
        Tasks { running: Running::default(), stop: watch::Sender::new(false) }
    }

    /// For whoever tells of them.
    pub fn running(&self) -> Running {
        self.running.clone()
    }

    pub fn stop_handle(&self) -> Stop {
        Stop(self.stop.subscribe())
    }

    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let task = task.instrument(tracing::debug_span!("task", name));
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the group tasks are spawned through"
        )]
        let handle = tokio::spawn(task);
        self.running.0.lock().unwrap_or_else(PoisonError::into_inner).push((name, handle));
    }

    /// Spawns what would never end by itself; it is dropped when it should.
    pub fn spawn_until_stop(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut stop = self.stop_handle();
        self.spawn(name, async move {
            tokio::select! {
                () = stop.requested() => {}
                () = task => {}
            }
        });
    }

    /// Asks all tasks to end and waits for them, up to a limit for all together.
    pub async fn stop(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        self.stop.send_replace(true);
        let running =
            std::mem::take(&mut *self.running.0.lock().unwrap_or_else(PoisonError::into_inner));
        for (name, mut handle) in running {
            match timeout_at(deadline, &mut handle).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(task = name, %error, "a task failed"),
                Err(_) => {
                    warn!(task = name, "a task did not end in time and is ended");
                    handle.abort();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tasks_end_when_asked_and_are_ended_when_they_do_not() {
        let tasks = Tasks::new();
        let mut stop = tasks.stop_handle();
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        tasks.spawn("willing", async move {
            stop.requested().await;
            let _ = ended.send(());
        });
        tasks.spawn("unwilling", pending());
        assert!(!tasks.stop_handle().is_requested());
        tasks.stop(Duration::from_secs(1)).await;
        assert!(tasks.stop_handle().is_requested());
        assert_eq!(has_ended.await, Ok(()));
    }
}

//! The slow work beside the log: preparing segments, writing snapshots, removing files.
//!
//! On a thread of its own, so that no commit waits for it; inline under simulation, where threads
//! would break determinism.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use super::files::Files;
use super::log::prepare;
use super::segment::{Plan, Segment};
use super::snapshot::{self, Snapshot};
use crate::{Error, Revision};

/// At most one snapshot and one segment are under way; more would be a defect.
const JOBS_MAX: usize = 16;

pub(super) enum Job {
    Prepare(Plan),
    Snapshot(Snapshot),
    CleanUp { compacted: Revision },
}

/// What became of a job.
pub(super) enum Done {
    Prepared(Result<Segment, Error>),
    Snapshot(Result<Revision, Error>),
}

pub(super) enum Keeper {
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "only simulation is inline"))]
    Inline { files: Arc<Files>, done: Vec<Done> },
    Thread {
        jobs: Option<mpsc::SyncSender<Job>>,
        done: mpsc::Receiver<Done>,
        thread: Option<thread::JoinHandle<()>>,
    },
}

impl Keeper {
    #[cfg(feature = "testing")]
    pub fn inline(files: Arc<Files>) -> Keeper {
        Keeper::Inline { files, done: Vec::new() }
    }

    pub fn start(files: Arc<Files>) -> Result<Keeper, Error> {
        let (jobs, job_receiver) = mpsc::sync_channel::<Job>(JOBS_MAX);
        let (done_sender, done) = mpsc::channel();
        let work = move || {
            for job in job_receiver {
                if let Some(outcome) = perform(&files, job) {
                    // The log may be gone already; then nobody needs the outcome.
                    let _ = done_sender.send(outcome);
                }
            }
        };
        let thread = thread::Builder::new().name("store-keeper".into()).spawn(work);
        let failed = |source| Error::Disk { doing: "start", file: "the keeper".into(), source };
        Ok(Keeper::Thread { jobs: Some(jobs), done, thread: Some(thread.map_err(failed)?) })
    }

    pub fn submit(&mut self, job: Job) {
        match self {
            Keeper::Inline { files, done } => done.extend(perform(files, job)),
            Keeper::Thread { jobs, .. } => {
                if let Some(jobs) = jobs
                    && jobs.try_send(job).is_err()
                {
                    tracing::warn!("the keeper is behind; a job is left for later");
                }
            }
        }
    }

    /// Waits for something to be finished.
    pub fn wait(&mut self) -> Option<Done> {
        match self {
            Keeper::Inline { done, .. } => done.pop(),
            Keeper::Thread { done, .. } => done.recv().ok(),
        }
    }

    /// What has been finished since the last look.
    pub fn finished(&mut self) -> Vec<Done> {
        match self {
            Keeper::Inline { done, .. } => std::mem::take(done),
            Keeper::Thread { done, .. } => done.try_iter().collect(),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Keeper::Thread { jobs, thread, .. } = self {
            jobs.take();
            if let Some(thread) = thread.take() {
                // A panic there was reported by the panic hook; there is nothing to add.
                let _ = thread.join();
            }
        }
    }
}

fn perform(files: &Files, job: Job) -> Option<Done> {
    match job {
        Job::Prepare(plan) => Some(Done::Prepared(prepare(files, &plan))),
        Job::Snapshot(snapshot) => {
            let revision = snapshot.sequence.head;
            let written = snapshot::write(&*files.disk, &snapshot).map(|bytes| {
                tracing::debug!(%revision, bytes, "wrote a snapshot");
                files.change(|catalog| catalog.snapshots.push(revision));
                revision
            });
            if written.is_ok() {
                report(files.clean_up(snapshot.compacted));
            }
            Some(Done::Snapshot(written))
        }
        Job::CleanUp { compacted } => {
            report(files.clean_up(compacted));
            None
        }
    }
}

fn report(cleaned: Result<(), Error>) {
    if let Err(error) = cleaned {
        tracing::warn!(%error, "old files stay until the next clean-up");
    }
}

//! Connections to a service, each passed on to one of its targets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::{Choice, Shared, Side};

/// How long one of the targets may take to answer before another is asked.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// Takes connections until it is dropped; those that are there go on.
pub async fn listen((listener, side): (TcpListener, Side), choice: Shared, free: Arc<Semaphore>) {
    let next = AtomicUsize::new(0);
    loop {
        let Ok(permit) = free.clone().acquire_owned().await else { return };
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let choice = choice.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let turn = super::turn(&choice, from, next.fetch_add(1, Ordering::Relaxed));
        let side = side.clone();
        #[expect(clippy::disallowed_methods, reason = "ends with its connection, and is counted")]
        tokio::spawn(async move {
            pass_on((stream, &side), &choice, turn).await;
            drop(permit);
        });
    }
}

/// To the first that answers.
async fn pass_on((mut stream, side): (TcpStream, &Side), choice: &Choice, turn: usize) {
    let count = choice.targets.len();
    for step in 0..count {
        let target = SocketAddr::from(choice.targets[turn.wrapping_add(step) % count]);
        let connected = tokio::time::timeout(CONNECT_MAX, side.connect(target)).await;
        if let Ok(Ok(mut other)) = connected {
            let _ = (stream.set_nodelay(true), other.set_nodelay(true));
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut other).await;
            return;
        }
    }
    // With nobody to ask the connection ends at once.
    let _ = stream.set_zero_linger();
}

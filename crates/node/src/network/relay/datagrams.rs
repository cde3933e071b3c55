//! Datagrams to a service. Each client has an association: one of the targets, and a socket of its
//! own, so that answers find the way back. It ends when nothing was said for a while, when nobody
//! listens at the target, or when the target is not one any more.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};

use super::{Choice, Shared, Side};

/// How long a client and its target may be silent before they are forgotten.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The longest datagram there can be.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;

/// Passes datagrams on until it is dropped.
pub async fn relay((socket, side): (UdpSocket, Side), choice: Shared, free: Arc<Semaphore>) {
    let socket = Arc::new(socket);
    let mut answers = Answers { socket: socket.clone(), side, free, tasks: JoinSet::new() };
    let mut known: BTreeMap<SocketAddr, Association> = BTreeMap::new();
    let mut next: usize = 0;
    let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
    // All answers pass through one: none is held while somebody waits.
    let buffer = Arc::new(Mutex::new(vec![0; DATAGRAM_BYTES_MAX]));
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut datagram) => received,
            Some(ended) = answers.tasks.join_next() => {
                if let Ok(client) = ended
                    && known.get(&client).is_some_and(|it| it.task.is_finished())
                {
                    known.remove(&client);
                }
                continue;
            }
        };
        // An answer that nobody took is told here too.
        let Ok((count, client)) = received else { continue };
        let choice = choice.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_good =
            |it: &Association| choice.targets.contains(&it.target) && !it.task.is_finished();
        if !known.get(&client).is_some_and(is_good) {
            known.remove(&client);
            let turn = super::turn(&choice, client, next);
            next = next.wrapping_add(1);
            let Some(made) = answers.associate(client, (&choice, turn), &buffer).await else {
                continue;
            };
            known.insert(client, made);
        }
        let Some(association) = known.get(&client) else { continue };
        association.moved.store(true, Ordering::Relaxed);
        // Nobody listens there; the client's next word goes to another.
        if association.socket.send(&datagram[..count]).await.is_err() {
            known.remove(&client);
        }
    }
}

/// A client and the target that it talks to.
struct Association {
    target: (Ipv4Addr, u16),
    socket: Arc<UdpSocket>,
    /// Whether the client said anything since somebody last looked.
    moved: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Drop for Association {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What carries answers back, a task for each association; each ends with its client's address.
struct Answers {
    socket: Arc<UdpSocket>,
    side: Side,
    free: Arc<Semaphore>,
    tasks: JoinSet<SocketAddr>,
}

impl Answers {
    /// `None` if there is nobody to talk to, or if too many do.
    async fn associate(
        &mut self,
        client: SocketAddr,
        (choice, turn): (&Choice, usize),
        buffer: &Arc<Mutex<Vec<u8>>>,
    ) -> Option<Association> {
        let index = turn.checked_rem(choice.targets.len())?;
        let target = choice.targets[index];
        let permit = self.free.clone().try_acquire_owned().ok()?;
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let own = self.side.bind_udp(any).await.ok()?;
        own.connect(SocketAddr::from(target)).await.ok()?;
        let (own, moved) = (Arc::new(own), Arc::new(AtomicBool::new(true)));
        let carried = Carried {
            from: own.clone(),
            to: (self.socket.clone(), client),
            moved: moved.clone(),
            buffer: buffer.clone(),
            _permit: permit,
        };
        let task = self.tasks.spawn(async move {
            carried.run().await;
            client
        });
        Some(Association { target, socket: own, moved, task })
    }
}

/// The way back to one client.
struct Carried {
    from: Arc<UdpSocket>,
    to: (Arc<UdpSocket>, SocketAddr),
    moved: Arc<AtomicBool>,
    buffer: Arc<Mutex<Vec<u8>>>,
    _permit: OwnedSemaphorePermit,
}

impl Carried {
    /// Returns when nothing moved for a while, or nobody is there.
    async fn run(self) {
        loop {
            match tokio::time::timeout(IDLE_MAX, self.from.readable()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) if self.moved.swap(false, Ordering::Relaxed) => continue,
                Err(_) => return,
            }
            let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
            match self.from.try_recv(&mut buffer) {
                Ok(count) => {
                    let (socket, client) = &self.to;
                    let _ = socket.try_send_to(&buffer[..count], *client);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    async fn bound() -> (UdpSocket, (Ipv4Addr, u16)) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = socket.local_addr().unwrap().port();
        (socket, (Ipv4Addr::LOCALHOST, port))
    }

    /// Answers every datagram with its own name before it.
    async fn echo(name: &'static str, tasks: &mut JoinSet<()>) -> (Ipv4Addr, u16) {
        let (socket, place) = bound().await;
        tasks.spawn(async move {
            let mut datagram = [0; 100];
            while let Ok((count, from)) = socket.recv_from(&mut datagram).await {
                let answer = [name.as_bytes(), &datagram[..count]].concat();
                let _ = socket.send_to(&answer, from).await;
            }
        });
        place
    }

    struct Relayed {
        tasks: JoinSet<()>,
        choice: Shared,
        free: Arc<Semaphore>,
        place: SocketAddr,
    }

    async fn relayed(names: &[&'static str], clients_max: usize) -> Relayed {
        let mut tasks = JoinSet::new();
        let mut choice = Choice::default();
        for name in names {
            choice.targets.push(echo(name, &mut tasks).await);
        }
        let (socket, (address, port)) = bound().await;
        let (choice, free) = (Arc::new(Mutex::new(choice)), Arc::new(Semaphore::new(clients_max)));
        tasks.spawn(relay((socket, Side::Host), choice.clone(), free.clone()));
        Relayed { tasks, choice, free, place: SocketAddr::from((address, port)) }
    }

    async fn said(client: &UdpSocket) -> String {
        let mut datagram = [0; 100];
        let received = tokio::time::timeout(PATIENCE, client.recv(&mut datagram));
        let count = received.await.expect("an answer in time").expect("an answer");
        String::from_utf8_lossy(&datagram[..count]).into_owned()
    }

    async fn client(relayed: &Relayed) -> UdpSocket {
        let client = bound().await.0;
        client.connect(relayed.place).await.unwrap();
        client
    }

    #[tokio::test]
    async fn a_client_keeps_its_target_and_the_next_one_gets_another() {
        let relayed = relayed(&["a:", "b:"], 8).await;
        let (one, two) = (client(&relayed).await, client(&relayed).await);
        for (client, expected) in [(&one, "a:x"), (&two, "b:x"), (&one, "a:x"), (&two, "b:x")] {
            client.send(b"x").await.unwrap();
            assert_eq!(said(client).await, expected);
        }
        // Who is not a target any more is not asked any more.
        relayed.choice.lock().unwrap().targets.remove(0);
        one.send(b"y").await.unwrap();
        assert_eq!(said(&one).await, "b:y");
    }

    #[tokio::test]
    async fn a_target_where_nobody_listens_is_given_up() {
        let relayed = relayed(&["a:"], 8).await;
        let (gone, place) = bound().await;
        drop(gone);
        relayed.choice.lock().unwrap().targets.insert(0, place);
        let client = client(&relayed).await;
        let mut datagram = [0; 100];
        // Lost datagrams are the client's to send again.
        let count = loop {
            client.send(b"x").await.unwrap();
            let wait = Duration::from_millis(50);
            if let Ok(Ok(count)) = tokio::time::timeout(wait, client.recv(&mut datagram)).await {
                break count;
            }
        };
        assert_eq!(&datagram[..count], b"a:x");
    }

    #[tokio::test]
    async fn too_many_clients_are_not_answered_until_others_are_idle() {
        let mut relayed = relayed(&["a:"], 1).await;
        let (one, two) = (client(&relayed).await, client(&relayed).await);
        one.send(b"x").await.unwrap();
        assert_eq!(said(&one).await, "a:x");
        assert_eq!(relayed.free.available_permits(), 0);
        two.send(b"x").await.unwrap();
        one.send(b"y").await.unwrap();
        // Datagrams are looked at in their order: the second client's was dropped before this.
        assert_eq!(said(&one).await, "a:y");
        assert!(two.try_recv(&mut [0; 9]).is_err());
        tokio::time::pause();
        // Whoever is silent for long enough is forgotten.
        while relayed.free.available_permits() == 0 {
            tokio::time::advance(IDLE_MAX).await;
        }
        tokio::time::resume();
        two.send(b"z").await.unwrap();
        assert_eq!(said(&two).await, "a:z");
        relayed.tasks.shutdown().await;
    }
}

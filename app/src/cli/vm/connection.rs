//! Connections to a machine: its consoles and its ports.

use std::io::{Read, Write};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::done::Reached;
use super::terminal::Raw;
use crate::cli::Context;

/// Ctrl-], as telnet has it.
const LEAVE: u8 = 0x1d;
const PIECE_BYTES: usize = 4_096;
/// Pieces of the keyboard that wait to be sent.
const PIECES_MAX: usize = 16;
const SSH_PORT: u16 = 22;

/// Joins the terminal with the serial console.
pub async fn console(cluster: &Cluster, name: &str) -> Result<()> {
    let machine = cluster.machine(name).await?;
    let connection = cluster.open(&machine, "console").await?;
    eprintln!("connected to {machine}; Ctrl-] leaves");
    let _raw = Raw::enter().context("could not take over the terminal")?;
    let (mut from, mut to) = tokio::io::split(connection);
    let mut keys = keyboard();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        tokio::select! {
            typed = keys.recv() => match typed {
                Some(typed) => {
                    let end = typed.iter().position(|key| *key == LEAVE);
                    to.write_all(&typed[..end.unwrap_or(typed.len())]).await?;
                    if end.is_some() {
                        return Ok(());
                    }
                }
                // Nothing more is typed; what the guest says is still shown.
                None => keys = mpsc::channel(1).1,
            },
            read = from.read(&mut piece) => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                let mut stdout = std::io::stdout().lock();
                stdout.write_all(&piece[..read])?;
                stdout.flush()?;
            }
        }
        if keys.is_closed() && keys.is_empty() {
            // A script has said all it had to say.
            return Ok(());
        }
    }
}

/// What is typed, read where waiting stops nobody.
fn keyboard() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    std::thread::spawn(move || {
        let mut piece = [0; PIECE_BYTES];
        while let Ok(read @ 1..) = std::io::stdin().lock().read(&mut piece) {
            if sender.blocking_send(piece[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

pub async fn screen(
    cluster: &Cluster,
    (name, of, port): (&str, &str, u16),
    context: &Context,
) -> Result<()> {
    let machine = cluster.machine(name).await?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    let listener = listener.with_context(|| format!("could not listen on port {port}"))?;
    let address = listener.local_addr()?.to_string();
    let (name, what) = (machine.clone(), "vnc".to_owned());
    context.output.print(&Reached { name, what, address })?;
    serve(cluster, &machine, vec![(listener, of.to_owned())]).await
}

pub async fn forward(
    cluster: &Cluster,
    name: &str,
    ports: &[String],
    context: &Context,
) -> Result<()> {
    let machine = cluster.machine(name).await?;
    let mut all = Vec::new();
    for text in ports {
        let (local, remote) = parse(text)?;
        let listener = TcpListener::bind(("127.0.0.1", local)).await;
        let listener = listener.with_context(|| format!("could not listen on port {local}"))?;
        let address = listener.local_addr()?.to_string();
        let (name, what) = (machine.clone(), remote.to_string());
        context.output.print(&Reached { name, what, address })?;
        all.push((listener, format!("portforward/{remote}/tcp")));
    }
    serve(cluster, &machine, all).await
}

/// `[PROTOCOL/]LOCAL:REMOTE`, or one port for both.
fn parse(text: &str) -> Result<(u16, u16)> {
    let ports = match text.split_once('/') {
        Some(("tcp", ports)) => ports,
        Some((other, _)) => bail!("{other} is not forwarded: tcp is"),
        None => text,
    };
    let (local, remote) = ports.split_once(':').unwrap_or((ports, ports));
    let port = |text: &str| text.parse::<u16>().with_context(|| format!("{text:?} is not a port"));
    Ok((port(local)?, port(remote)?))
}

/// Joins whoever connects with the machine, until somebody ends the program.
async fn serve(cluster: &Cluster, machine: &str, ports: Vec<(TcpListener, String)>) -> Result<()> {
    let accepting = ports.iter().map(|(listener, of)| async move {
        let mut tasks = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await?;
            let mut connection = match cluster.open(machine, of).await {
                Ok(connection) => connection,
                Err(error) => {
                    eprintln!("{error:#}");
                    continue;
                }
            };
            tasks.spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut connection).await;
            });
            while tasks.try_join_next().is_some() {}
        }
    });
    let ended: Result<Vec<()>> = futures::future::try_join_all(accepting).await;
    ended.map(drop)
}

/// Runs ssh through a port of this machine.
pub async fn ssh(
    cluster: &Cluster,
    name: &str,
    user: &str,
    arguments: &[String],
) -> Result<ExitCode> {
    let machine = cluster.machine(name).await?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let port = listener.local_addr()?.port();
    let (user, arguments) = (user.to_owned(), arguments.to_vec());
    let ended = tokio::task::spawn_blocking(move || {
        let mut command = Command::new("ssh");
        command.args(["-p", &port.to_string(), "-l", &user]);
        // The port is another each time, so the name of the host would be too.
        command.args(["-o", "NoHostAuthenticationForLocalhost=yes", "127.0.0.1"]);
        command.args(arguments).status()
    });
    let forwarded = format!("portforward/{SSH_PORT}/tcp");
    let status = tokio::select! {
        ended = ended => ended?.context("could not run ssh")?,
        failed = serve(cluster, &machine, vec![(listener, forwarded)]) => {
            failed?;
            bail!("the connection ended");
        }
    };
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_said_as_virtctl_has_them() {
        assert_eq!(parse("8080:80").unwrap(), (8080, 80));
        assert_eq!(parse("22").unwrap(), (22, 22));
        assert_eq!(parse("tcp/8080:80").unwrap(), (8080, 80));
        for bad in ["udp/53:53", "x", "1:x", "99999", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

//! The proxy in front of a server that answers each byte with a line.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::*;
use crate::clock::{Look, wait_for};

const ANSWER: &[u8] = b"0123456789";

/// Answers each byte of each connection with [`ANSWER`], until the process ends.
fn upstream() -> u16 {
    let listener = TcpListener::bind(port::loopback(0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() {
                    if stream.write_all(ANSWER).is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

fn connect(cutter: &Cutter) -> TcpStream {
    let stream = TcpStream::connect(port::loopback(cutter.port())).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    stream
}

/// Asks once; the answer, or how far it came and why not further.
fn ask(stream: &mut TcpStream) -> (usize, io::Result<()>) {
    let mut answer = [0; ANSWER.len()];
    if let Err(error) = stream.write_all(b"?") {
        return (0, Err(error));
    }
    let mut count = 0;
    while count < answer.len() {
        match stream.read(&mut answer[count..]) {
            Ok(0) => return (count, Err(ErrorKind::UnexpectedEof.into())),
            Ok(more) => count += more,
            Err(error) => return (count, Err(error)),
        }
    }
    assert_eq!(answer, ANSWER);
    (count, Ok(()))
}

fn assert_answers(stream: &mut TcpStream) {
    ask(stream).1.unwrap();
}

fn assert_reset_after(stream: &mut TcpStream, bytes: usize) {
    let (count, result) = ask(stream);
    assert_eq!((count, result.unwrap_err().kind()), (bytes, ErrorKind::ConnectionReset));
}

#[test]
fn an_unarmed_proxy_passes_everything_on() {
    let cutter = Cutter::start(upstream()).unwrap();
    let mut stream = connect(&cutter);
    for _ in 0..100 {
        assert_answers(&mut stream);
    }
    assert_eq!((cutter.connections(), cutter.cuts()), (1, 0));
}

#[test]
fn a_cut_resets_in_the_middle_of_an_answer_and_later_connections_are_normal() {
    let cutter = Cutter::start(upstream()).unwrap();
    let (mut one, mut two) = (connect(&cutter), connect(&cutter));
    assert_answers(&mut one);
    cutter.cut_after(13);
    assert_answers(&mut one);
    assert_reset_after(&mut one, 3);

    let mut later = connect(&cutter);
    assert_answers(&mut later);
    assert_answers(&mut later);
    // The other had its allowance when the cut was armed, and keeps it.
    assert_answers(&mut two);
    assert_reset_after(&mut two, 3);
    assert_eq!(cutter.cuts(), 2);
}

#[test]
fn a_connection_made_while_armed_is_cut_too() {
    let cutter = Cutter::start(upstream()).unwrap();
    cutter.cut_after(4);
    assert_reset_after(&mut connect(&cutter), 4);
    assert_answers(&mut connect(&cutter));
}

#[test]
fn a_cut_after_nothing_loses_the_whole_answer() {
    let cutter = Cutter::start(upstream()).unwrap();
    let mut stream = connect(&cutter);
    assert_answers(&mut stream);
    cutter.cut_after(0);
    assert_eq!(cutter.connections(), 1);
    assert_reset_after(&mut stream, 0);
}

#[test]
fn cutting_all_resets_every_open_connection_at_once() {
    let cutter = Cutter::start(upstream()).unwrap();
    let mut streams = [connect(&cutter), connect(&cutter)];
    streams.iter_mut().for_each(assert_answers);
    cutter.cut_all();
    assert_eq!((cutter.connections(), cutter.cuts()), (0, 2));
    for stream in &mut streams {
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    assert_answers(&mut connect(&cutter));
}

#[test]
fn a_refusing_proxy_refuses_new_connections_and_keeps_the_old() {
    let cutter = Cutter::start(upstream()).unwrap();
    let mut old = connect(&cutter);
    assert_answers(&mut old);
    cutter.admit(Admit::None);
    let error = TcpStream::connect(port::loopback(cutter.port())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert_answers(&mut old);
    cutter.admit(Admit::All);
    cutter.admit(Admit::All);
    assert_answers(&mut connect(&cutter));
}

#[test]
fn a_stalled_proxy_holds_answers_back_until_it_is_resumed() {
    let cutter = Cutter::start(upstream()).unwrap();
    let mut stream = connect(&cutter);
    assert_answers(&mut stream);
    cutter.stall();
    stream.write_all(b"?").unwrap();
    // Before it obeys, the worker looks at the sockets.
    cutter.connections();
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    cutter.resume();
    let mut answer = [0; ANSWER.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, ANSWER);
}

#[test]
fn a_closed_client_and_a_missing_server_leave_no_connection() {
    let cutter = Cutter::start(upstream()).unwrap();
    let mut stream = connect(&cutter);
    assert_answers(&mut stream);
    drop(stream);
    let gone = wait_for(std::time::Duration::from_secs(30), || {
        Ok::<_, ()>(if cutter.connections() == 0 { Look::Found(()) } else { Look::NotYet })
    });
    assert_eq!(gone, Ok(Some(())));

    let nobody = Port::reserve().unwrap();
    let cutter = Cutter::start(nobody.number()).unwrap();
    assert!(connect(&cutter).read(&mut [0]).map_or(true, |count| count == 0));
}

#[test]
fn dropping_the_proxy_closes_its_connections_and_its_port() {
    let cutter = Cutter::start(upstream()).unwrap();
    let port = cutter.port();
    let mut stream = connect(&cutter);
    assert_answers(&mut stream);
    drop(cutter);
    assert!(stream.read(&mut [0]).map_or(true, |count| count == 0));
    assert!(TcpStream::connect(port::loopback(port)).is_err());
}

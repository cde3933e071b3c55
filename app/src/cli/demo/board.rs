//! How it goes, shown to whoever waits: a line for each part that changes in place on a terminal,
//! and elsewhere one plain line, with its time, for every change.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::output::{self, Marks};

/// How often a terminal is drawn again, so that its clocks go.
const TICK: Duration = Duration::from_millis(100);
const TURNS: [&str; 4] = ["◐", "◓", "◑", "◒"];
/// As wide as a terminal is that does not say.
pub const WIDTH_USUAL: usize = 80;

/// How a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Goes,
    Well,
    Skipped,
    Failed,
}

struct Line {
    name: &'static str,
    state: State,
    text: String,
    began: Instant,
    /// For how long, once it is over.
    took: Option<Duration>,
}

/// All lines, in the order in which their parts began.
pub struct Board {
    began: Instant,
    lines: Mutex<Vec<Line>>,
    manner: Manner,
    /// Lines that stand on the terminal, above the cursor.
    drawn: AtomicUsize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Drawn,
    Plain,
    /// Nobody wants to know how it goes.
    Silent,
}

impl Board {
    pub fn new(began: Instant) -> Board {
        let manner = match output::can_be_drawn_on(&io::stderr()) {
            _ if output::is_quiet() => Manner::Silent,
            true => Manner::Drawn,
            false => Manner::Plain,
        };
        Board { began, lines: Mutex::default(), manner, drawn: AtomicUsize::new(0) }
    }

    /// What a part does now.
    pub fn say(&self, name: &'static str, text: impl Into<String>) {
        self.change(name, State::Goes, text.into());
    }

    /// How a part ended.
    pub fn end(&self, name: &'static str, state: State, text: impl Into<String>) {
        self.change(name, state, text.into());
    }

    fn change(&self, name: &'static str, state: State, text: String) {
        let now = Instant::now();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let index = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
            let (state, text) = (State::Goes, String::new());
            lines.push(Line { name, state, text, began: now, took: None });
            lines.len() - 1
        });
        let line = &mut lines[index];
        if line.state == state && line.text == text {
            return;
        }
        line.took = (state != State::Goes).then(|| now - line.began);
        (line.state, line.text) = (state, text);
        if self.manner == Manner::Plain {
            let at = (now - self.began).as_secs_f64();
            let mark = mark(state, Marks::of(&io::stderr()));
            let _ = writeln!(io::stderr(), "{at:>7.2}s  {mark} {name:<10} {}", line.text);
        }
    }

    /// Draws until it is dropped; nothing where nothing is drawn.
    pub async fn draw(&self) {
        if self.manner != Manner::Drawn {
            std::future::pending::<()>().await;
        }
        for turn in 0.. {
            self.draw_once(turn);
            tokio::time::sleep(TICK).await;
        }
    }

    /// Draws for the last time.
    pub fn draw_last(&self) {
        if self.manner == Manner::Drawn {
            self.draw_once(0);
        }
    }

    /// Takes what was drawn away again, where a report says all of it to the same eyes.
    pub fn clear(&self) {
        let above = self.drawn.swap(0, Ordering::Relaxed);
        if self.manner == Manner::Drawn && above > 0 {
            let _ = write!(io::stderr(), "\x1b[{above}A\r\x1b[J");
        }
    }

    fn draw_once(&self, turn: usize) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let width = output::width(&io::stderr()).unwrap_or(WIDTH_USUAL);
        let now = Instant::now();
        let mut text = String::new();
        let above = self.drawn.swap(lines.len(), Ordering::Relaxed);
        if above > 0 {
            let _ = write!(text, "\x1b[{above}A");
        }
        for line in lines.iter() {
            let took = line.took.unwrap_or(now - line.began).as_secs_f64();
            let mark = match line.state {
                State::Goes => TURNS[turn % TURNS.len()],
                state => mark(state, Marks::of(&io::stderr())),
            };
            let rest = format!("{:<10} {took:>6.1}s  {}", line.name, line.text);
            let rest: String = rest.chars().take(width.saturating_sub(4)).collect();
            let _ = writeln!(text, "\r\x1b[2K {mark} {rest}");
        }
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

fn mark(state: State, marks: Marks) -> &'static str {
    match state {
        State::Goes => "... ",
        State::Well => marks.well(),
        State::Skipped => marks.so_so(),
        State::Failed => marks.unwell(),
    }
}

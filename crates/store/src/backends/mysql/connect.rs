//! The way to the server: the pool, a session of it, and what errors mean.
//!
//! A session that is not given back in good order is closed, never reused: whatever its transaction
//! held is then rolled back by the server.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use mysql_async::prelude::{AsQuery, FromValue, Queryable};
use mysql_async::{Conn, OptsBuilder, Pool, PoolConstraints, PoolOpts, Row, SslOpts};
use mysql_async::{QueryResult, TextProtocol};
use tokio::time::Instant;

use super::mirror::{self, Loaded};
use super::schema::{self, Facts};
use super::{Settings, Tls};
use crate::Error;

/// How long opening a store waits for the server.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
const OPEN_RETRY: Duration = Duration::from_millis(100);
/// How long a session is waited for.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the server may be silent before the connection counts as lost. Longer than the
/// longest wait for a lock.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for a lock; the server's own limit when that is shorter.
const LOCK_SECONDS_MAX: u32 = 5;
/// The server ends a session that was silent for so long, with the locks it holds: a process that
/// is stopped while it commits holds up all others as long.
const SESSION_IDLE_SECONDS_MAX: u32 = 15;
/// The same within a transaction, where the server can tell. Shorter than the wait for a lock, so
/// that whoever waits gets it.
const TRANSACTION_IDLE_SECONDS_MAX: u32 = 3;
/// We do not use a session again that was idle for so long: the server may be ending it.
const SESSION_REUSE_SECONDS_MAX: u64 = 10;
/// How long closing the connections may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Notices a peer that went away without a word.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Connections when the settings say "no limit".
const CONNECTIONS_MAX: usize = 100;
/// Idle connections below which every look at the server would connect anew.
const IDLE_MIN: usize = 2;
/// With fewer connections than this, nobody keeps one between uses.
const KEEP_FROM: usize = 4;

pub type Result<T> = std::result::Result<T, mysql_async::Error>;

/// Which server and database this is, for messages.
#[derive(Clone, Debug)]
pub struct Server {
    pub name: String,
    pub database: String,
    user: String,
}

/// Why a store could not be opened.
pub enum Refusal {
    Final(Error),
    Failed(mysql_async::Error),
}

impl From<mysql_async::Error> for Refusal {
    fn from(error: mysql_async::Error) -> Refusal {
        Refusal::Failed(error)
    }
}

/// Connects, prepares the database and loads its state.
pub async fn open(settings: &Settings) -> std::result::Result<(Sessions, Loaded), Error> {
    let server = Server {
        name: format!("MySQL at {}:{}", settings.host, settings.port),
        database: settings.database.clone(),
        user: settings.user.clone(),
    };
    let options = options(settings)?;
    let deadline = Instant::now() + OPEN_TIMEOUT;
    loop {
        let error = match try_open(settings, &options, &server).await {
            Ok(opened) => return Ok(opened),
            Err(Refusal::Final(error)) => return Err(error),
            Err(Refusal::Failed(error)) => error,
        };
        if !is_lost(&error) || Instant::now() >= deadline {
            return Err(server.open_error(error));
        }
        tokio::time::sleep(OPEN_RETRY).await;
    }
}

async fn try_open(
    settings: &Settings,
    options: &OptsBuilder,
    server: &Server,
) -> std::result::Result<(Sessions, Loaded), Refusal> {
    let mut conn = within(OPEN_TIMEOUT, Conn::new(options.clone())).await?;
    let prepared = tokio::time::timeout(ANSWER_TIMEOUT, schema::prepare(&mut conn, server)).await;
    let facts = prepared.map_err(|_| silence())??;
    close(conn);
    let sessions = Sessions::new(settings, options.clone(), server.clone(), &facts);
    let mut session = sessions.take().await?;
    let loaded = mirror::load(&mut session).await?;
    session.give_back();
    Ok((sessions, loaded))
}

fn options(settings: &Settings) -> std::result::Result<OptsBuilder, Error> {
    let options = OptsBuilder::default()
        .ip_or_hostname(settings.host.clone())
        .tcp_port(settings.port)
        .user(Some(settings.user.clone()))
        .pass(Some(settings.password.clone()))
        // The host and port of the settings, not a socket that the server names.
        .prefer_socket(false)
        .tcp_keepalive(Some(KEEPALIVE))
        .wait_timeout(Some(SESSION_REUSE_SECONDS_MAX as usize));
    let Tls::On { ca_file } = &settings.tls else { return Ok(options) };
    let tls = SslOpts::default().with_disable_built_in_roots(true);
    let tls = match ca_file {
        Some(file) => tls.with_root_certs(vec![file.clone().into()]),
        None => {
            let roots = machine_roots()?.into_iter().map(Into::into);
            tls.with_root_certs(roots.collect())
        }
    };
    Ok(options.ssl_opts(tls))
}

fn machine_roots() -> std::result::Result<Vec<Vec<u8>>, Error> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let what = "this machine has no root certificates; install ca-certificates, or name a \
                    file in storage.mysql"
            .to_owned();
        return Err(Error::Invalid { what });
    }
    Ok(found.certs.into_iter().map(|der| der.to_vec()).collect())
}

impl Server {
    fn open_error(&self, source: mysql_async::Error) -> Error {
        const ACCESS_DENIED: [u16; 2] = [1045, 1698];
        let server = self.name.clone();
        let section = "mysql";
        match server_code(&source) {
            Some(code) if ACCESS_DENIED.contains(&code) => Error::Login {
                server,
                user: self.user.clone(),
                section,
                keys: "user and storage.mysql.password",
                source: source.into(),
            },
            _ => Error::Connect { server, section, source: source.into() },
        }
    }

    /// Nothing was written, or nothing was to be.
    pub fn unavailable(&self, source: mysql_async::Error) -> Error {
        Error::unavailable(format!("{} could not do it: {source}", self.name), source)
    }
}

/// The sessions with one server.
pub struct Sessions {
    pub server: Server,
    pub max_allowed_packet: usize,
    pool: Pool,
    /// Whether there are enough for the background tasks to keep theirs.
    keep: bool,
}

impl Sessions {
    fn new(settings: &Settings, options: OptsBuilder, server: Server, facts: &Facts) -> Sessions {
        let open_max = match settings.max_open_conns {
            0 => CONNECTIONS_MAX,
            some => some,
        };
        let idle_max = settings.max_idle_conns.max(IDLE_MIN).min(open_max);
        let constraints = PoolConstraints::new(idle_max, open_max)
            .expect("the idle connections must be fewer than the open ones");
        let mut setup = vec![
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
            // Literals escape with backslashes, and nothing is cut to fit.
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'".to_owned(),
            format!(
                "SET SESSION innodb_lock_wait_timeout = \
                 LEAST(@@global.innodb_lock_wait_timeout, {LOCK_SECONDS_MAX})"
            ),
            format!("SET SESSION wait_timeout = {SESSION_IDLE_SECONDS_MAX}"),
        ];
        if facts.has_idle_transactions {
            let seconds = TRANSACTION_IDLE_SECONDS_MAX;
            setup.push(format!("SET SESSION idle_transaction_timeout = {seconds}"));
        }
        if facts.has_snapshot_isolation {
            // It makes locking reads fail that are right here (kine issues 721 and 745).
            setup.push("SET SESSION innodb_snapshot_isolation = OFF".to_owned());
        }
        let options = options
            .db_name(Some(settings.database.clone()))
            .pool_opts(PoolOpts::default().with_constraints(constraints))
            .setup(setup);
        Sessions {
            server,
            max_allowed_packet: facts.max_allowed_packet,
            pool: Pool::new(options),
            keep: open_max >= KEEP_FROM,
        }
    }

    pub async fn take(&self) -> Result<Session> {
        let conn = within(CONNECT_TIMEOUT, self.pool.get_conn()).await?;
        Ok(Session { conn: Some(conn) })
    }

    /// A session for a background task, which connects again when it was lost.
    pub fn link(&self) -> Link<'_> {
        Link { sessions: self, session: None, used: Instant::now() }
    }

    /// Closes the idle connections; those in use are closed by whoever uses them.
    pub async fn close(&self) {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.pool.clone().disconnect()).await;
    }
}

/// A session that is made when needed.
pub struct Link<'a> {
    sessions: &'a Sessions,
    session: Option<Session>,
    used: Instant,
}

impl Link<'_> {
    pub async fn session(&mut self) -> Result<&mut Session> {
        if self.used.elapsed() > Duration::from_secs(SESSION_REUSE_SECONDS_MAX) {
            // The pool does not hand it out again either.
            self.give_back();
        }
        self.used = Instant::now();
        let session = match self.session.take() {
            Some(session) => session,
            None => self.sessions.take().await?,
        };
        Ok(self.session.insert(session))
    }

    /// Everything went well: the session is kept, or given back when there are few.
    pub fn rest(&mut self) {
        if !self.sessions.keep {
            self.give_back();
        }
    }

    /// Everything went well and is over for a while.
    pub fn give_back(&mut self) {
        if let Some(session) = self.session.take() {
            session.give_back();
        }
    }

    /// Something went wrong: the session is closed, and with it its transaction.
    pub fn lose(&mut self) {
        self.session = None;
    }
}

/// A connection from the pool. Closed when dropped, unless given back.
pub struct Session {
    conn: Option<Conn>,
}

impl Session {
    fn conn(&mut self) -> &mut Conn {
        self.conn.as_mut().expect("a session must have its connection until it ends")
    }

    /// Between transactions and with all answers read.
    pub fn give_back(mut self) {
        if let Some(mut conn) = self.conn.take() {
            // It is clean; the pool need not ask the server to make it so.
            conn.reset_connection(false);
        }
    }

    /// Runs a statement and returns its rows.
    pub async fn rows(&mut self, statement: impl AsQuery) -> Result<Vec<Row>> {
        let rows = async { self.conn().query_iter(statement).await?.collect_and_drop().await };
        within(ANSWER_TIMEOUT, rows).await
    }

    /// Runs statements that return no rows; says how many the last one changed.
    pub async fn run(&mut self, statements: impl AsQuery) -> Result<u64> {
        let run = async {
            self.conn().query_drop(statements).await?;
            Ok(self.conn().affected_rows())
        };
        within(ANSWER_TIMEOUT, run).await
    }

    /// Runs so many statements in one packet and returns the rows of each.
    pub async fn sets(&mut self, statements: Vec<u8>, count: usize) -> Result<Vec<Vec<Row>>> {
        let sets = async {
            let mut result = self.conn().query_iter(statements).await?;
            let mut sets = Vec::with_capacity(count);
            for _ in 0..count {
                sets.push(result.collect().await?);
            }
            // An error of a statement must not be mistaken for no rows.
            result.drop_result().await?;
            Ok(sets)
        };
        within(ANSWER_TIMEOUT, sets).await
    }

    /// Runs a statement whose rows are to be read one by one, with [`next_row`].
    pub async fn stream<'a>(
        &'a mut self,
        statement: impl AsQuery + 'a,
    ) -> Result<QueryResult<'a, 'static, TextProtocol>> {
        within(ANSWER_TIMEOUT, self.conn().query_iter(statement)).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            close(conn);
        }
    }
}

/// The next row of the current statement. `None` comes only when the server said that it was all.
pub async fn next_row(result: &mut QueryResult<'_, '_, TextProtocol>) -> Result<Option<Row>> {
    within(ANSWER_TIMEOUT, result.next()).await
}

/// Closes a connection without waiting, so that a pool does not use it again.
fn close(conn: Conn) {
    // The first step of a disconnect marks the connection; the rest is a courtesy to the server.
    let _ = pin!(conn.disconnect()).as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

/// Takes a column out of a row.
pub fn take<T: FromValue>(row: &mut Row, column: usize) -> Result<T> {
    match row.take_opt(column) {
        Some(Ok(value)) => Ok(value),
        _ => Err(unexpected(format!("column {column} of an answer is not as expected"))),
    }
}

/// The only row of an answer.
pub fn single(rows: Vec<Row>) -> Result<Row> {
    match <[Row; 1]>::try_from(rows) {
        Ok([row]) => Ok(row),
        Err(rows) => Err(unexpected(format!("{} rows where one was expected", rows.len()))),
    }
}

/// An answer that cannot be true.
pub fn unexpected(what: String) -> mysql_async::Error {
    mysql_async::Error::Other(what.into())
}

fn silence() -> mysql_async::Error {
    let silent = std::io::Error::new(std::io::ErrorKind::TimedOut, "the server does not answer");
    silent.into()
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(silence()))
}

pub fn server_code(error: &mysql_async::Error) -> Option<u16> {
    match error {
        mysql_async::Error::Server(error) => Some(error.code),
        _ => None,
    }
}

/// Whether the connection was lost, or the server is going away or not ready yet.
pub fn is_lost(error: &mysql_async::Error) -> bool {
    use mysql_async::{DriverError, IoError};
    use std::io::ErrorKind;

    const GOING_AWAY: [u16; 12] =
        [1040, 1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1317, 1927];
    match error {
        // A certificate that is not trusted, or a file of them that is not there.
        mysql_async::Error::Io(IoError::Io(error)) => !matches!(
            error.kind(),
            ErrorKind::InvalidData | ErrorKind::NotFound | ErrorKind::PermissionDenied
        ),
        mysql_async::Error::Io(IoError::Tls(_)) => false,
        mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer) => false,
        mysql_async::Error::Driver(_) => true,
        mysql_async::Error::Server(error) => GOING_AWAY.contains(&error.code),
        mysql_async::Error::Other(_) | mysql_async::Error::Url(_) => false,
    }
}

/// Whether the server chose our transaction to be rolled back.
pub fn is_deadlock(error: &mysql_async::Error) -> bool {
    server_code(error) == Some(1213)
}

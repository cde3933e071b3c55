//! A private MariaDB server.

use std::fs;
use std::io::{self, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::Look;
use crate::directory::Directory;
use crate::error::Error;
use crate::port::{self, Port};
use crate::process;
use crate::program;
use crate::server::{self, Recipe, Server};

pub const USER: &str = "setpoint";
pub const PASSWORD: &str = "setpoint";

/// How long the server may take to greet a connection that it accepted.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// The first byte of a greeting's body: the version of the protocol.
const PROTOCOL_VERSION: u8 = 10;

/// Run at every start, before the server greets anyone.
const INIT_SQL: &str = "\
    CREATE USER IF NOT EXISTS 'setpoint'@'%' IDENTIFIED BY 'setpoint';\n\
    GRANT ALL PRIVILEGES ON *.* TO 'setpoint'@'%' WITH GRANT OPTION;\n";

/// A MariaDB server on a free loopback port, with data of its own.
///
/// The user [`MariaDb::user`] may do everything over TCP. Commits are durable
/// (`innodb_flush_log_at_trx_commit=1`). Dropping it kills the server and removes the data.
pub struct MariaDb {
    server: Server,
    port: Port,
    data: PathBuf,
    // Last, so that the server is dead when its files go.
    _directory: Directory,
}

impl MariaDb {
    pub fn start() -> Result<MariaDb, Error> {
        MariaDb::start_with(&[])
    }

    /// Starts with further arguments of `mariadbd`; they win over ours.
    pub fn start_with(extra_args: &[&str]) -> Result<MariaDb, Error> {
        let directory = Directory::create("mariadb")?;
        let temporary = directory.path().join("tmp");
        fs::create_dir(&temporary)
            .map_err(Error::io(format!("create the directory {}", temporary.display())))?;
        let data = install(directory.path())?;
        let port = Port::reserve()?;
        let recipe = recipe(directory.path(), port.number(), extra_args)?;
        let server = Server::start(recipe, || greets(port.number()))?;
        Ok(MariaDb { server, port, data, _directory: directory })
    }

    /// Starts a stopped or killed server on the same data and the same port.
    pub fn start_again(&mut self) -> Result<(), Error> {
        let port = self.port();
        self.server.start_again(|| greets(port))
    }

    /// SIGTERM, then waits until the server has ended.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.server.stop()
    }

    /// SIGKILL, then waits until the server has ended.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.server.kill()
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    pub fn user(&self) -> &'static str {
        USER
    }

    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    pub fn data_directory(&self) -> &Path {
        &self.data
    }

    /// The id of the server's process, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.server.process_id()
    }
}

/// Makes the system tables; returns the data directory.
fn install(directory: &Path) -> Result<PathBuf, Error> {
    let data = directory.join("data");
    let mut arguments = vec![
        "--no-defaults".to_owned(),
        format!("--datadir={}", data.display()),
        own_temporary(directory),
        "--auth-root-authentication-method=normal".to_owned(),
        "--skip-test-db".to_owned(),
        "--skip-name-resolve".to_owned(),
    ];
    arguments.extend(small_buffers());
    arguments.extend(as_root());
    server::run(&Recipe {
        name: "mariadb-install-db",
        program: program::find("mariadb-install-db")?,
        arguments,
        environment: Vec::new(),
        environment_removed_prefix: "MYSQL_",
        log: directory.join("install.log"),
    })?;
    Ok(data)
}

fn recipe(directory: &Path, port: u16, extra_args: &[&str]) -> Result<Recipe, Error> {
    let init = directory.join("init.sql");
    fs::write(&init, INIT_SQL).map_err(Error::io(format!("write {}", init.display())))?;
    let mut arguments = vec![
        "--no-defaults".to_owned(),
        format!("--datadir={}", directory.join("data").display()),
        own_temporary(directory),
        format!("--pid-file={}", directory.join("pid").display()),
        // Relative to the data directory: a whole path may be longer than a socket's may be.
        "--socket=server.sock".to_owned(),
        format!("--init-file={}", init.display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--port={port}"),
        "--skip-name-resolve".to_owned(),
        "--innodb-flush-log-at-trx-commit=1".to_owned(),
        "--max-connections=500".to_owned(),
    ];
    arguments.extend(small_buffers());
    arguments.extend(as_root());
    arguments.extend(extra_args.iter().map(|argument| (*argument).to_owned()));
    Ok(Recipe {
        name: "mariadbd",
        program: program::find("mariadbd")?,
        arguments,
        environment: Vec::new(),
        environment_removed_prefix: "MYSQL_",
        log: directory.join("mariadbd.log"),
    })
}

/// A starting server removes every temporary table that it finds, also those of another.
fn own_temporary(directory: &Path) -> String {
    format!("--tmpdir={}", directory.join("tmp").display())
}

fn small_buffers() -> Vec<String> {
    let arguments = [
        "--innodb-buffer-pool-size=64M",
        "--innodb-log-file-size=32M",
        "--key-buffer-size=1M",
        "--aria-pagecache-buffer-size=4M",
        "--performance-schema=OFF",
    ];
    arguments.map(str::to_owned).to_vec()
}

/// The server refuses to run as root unless it is told to.
fn as_root() -> Option<String> {
    (process::user_id() == 0).then(|| "--user=root".to_owned())
}

/// Whether the server greets: it does so only after its init file has been run.
fn greets(port: u16) -> io::Result<Look<()>> {
    // A greeting is a packet: three bytes of length, a sequence number, the protocol's version.
    let mut start = [0; 5];
    let read = TcpStream::connect(port::loopback(port)).and_then(|mut stream| {
        stream.set_read_timeout(Some(GREETING_TIMEOUT))?;
        stream.read_exact(&mut start)
    });
    match read {
        Ok(()) if start[4] == PROTOCOL_VERSION => Ok(Look::Found(())),
        Ok(()) => Err(io::Error::other(format!("not a greeting: {start:?}"))),
        Err(error) if port::is_transient(&error) => Ok(Look::NotYet),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs a statement over TCP with the client that comes with the server.
    fn sql(server: &MariaDb, statement: &str) -> String {
        let output = Command::new("mariadb")
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--batch"])
            .args(["--skip-column-names", &format!("--port={}", server.port())])
            .args([
                format!("--user={}", server.user()),
                format!("--password={}", server.password()),
            ])
            .args(["--execute", statement])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn a_killed_server_starts_again_on_the_same_port_with_its_data() {
        let mut mariadb = MariaDb::start_with(&["--innodb-lock-wait-timeout=1"]).unwrap();
        let port = mariadb.port();
        assert_eq!(sql(&mariadb, "SELECT @@innodb_lock_wait_timeout"), "1");
        sql(&mariadb, "CREATE DATABASE d; CREATE TABLE d.t (n INT); INSERT INTO d.t VALUES (7)");

        mariadb.kill().unwrap();
        assert!(TcpStream::connect(port::loopback(port)).is_err());
        mariadb.start_again().unwrap();
        assert_eq!(sql(&mariadb, "SELECT n FROM d.t"), "7");

        mariadb.stop().unwrap();
        mariadb.stop().unwrap();
        assert_eq!(mariadb.process_id(), None);
        mariadb.start_again().unwrap();
        assert_eq!((mariadb.port(), sql(&mariadb, "SELECT n FROM d.t")), (port, "7".to_owned()));

        let process = PathBuf::from(format!("/proc/{}", mariadb.process_id().unwrap()));
        let data = mariadb.data_directory().to_owned();
        assert!(process.exists() && data.exists());
        drop(mariadb);
        assert!(!process.exists() && !data.exists());
    }

    #[test]
    fn a_server_that_cannot_start_shows_the_end_of_its_log() {
        let error = MariaDb::start_with(&["--no-such-option"]).err().unwrap().to_string();
        assert!(error.starts_with("mariadbd did not start: it ended with exit status"), "{error}");
        assert!(error.contains("unknown option '--no-such-option'"), "{error}");
    }
}

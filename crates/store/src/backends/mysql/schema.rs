//! The tables, and what is checked of a database before it is used.
//!
//! Names and values are bytes everywhere: no collation, no padding, the same order as in memory.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::connect::{self, Refusal, server_code};
use crate::Error;

/// The newest layout of the tables that this program knows.
const FORMAT: u32 = 2;

/// A commit of the largest size must fit in a packet with all of its bytes escaped.
const PACKET_BYTES_MIN: usize = 4 << 20;

const UNKNOWN_DATABASE: u16 = 1049;
const UNKNOWN_TABLE: u16 = 1146;
const DUPLICATE_COLUMN: u16 = 1060;

/// `setpoint_revision` is made last: a database that has its row has all tables.
const TABLES: [&str; 5] = [
    // Every change, with its value. `superseded` is the revision that replaced the row.
    "CREATE TABLE IF NOT EXISTS setpoint_log (
        revision BIGINT UNSIGNED NOT NULL,
        position INT UNSIGNED NOT NULL,
        name VARBINARY(1024) NOT NULL,
        created BIGINT UNSIGNED NOT NULL,
        superseded BIGINT UNSIGNED NULL,
        value LONGBLOB NULL,
        PRIMARY KEY (revision, position),
        KEY by_name (name, revision),
        KEY by_superseded (superseded)
    ) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // Where in the log the live value of each key is. Lists never look at history.
    "CREATE TABLE IF NOT EXISTS setpoint_current (
        name VARBINARY(1024) NOT NULL,
        created BIGINT UNSIGNED NOT NULL,
        modified BIGINT UNSIGNED NOT NULL,
        position INT UNSIGNED NOT NULL,
        PRIMARY KEY (name)
    ) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // Who wrote, and how much; `total` is the sum of `bytes` up to the row.
    "CREATE TABLE IF NOT EXISTS setpoint_commit (
        revision BIGINT UNSIGNED NOT NULL,
        time BIGINT NOT NULL,
        actor VARBINARY(1024) NOT NULL,
        manager VARBINARY(1024) NOT NULL,
        request VARBINARY(1024) NOT NULL,
        cause BIGINT UNSIGNED NULL,
        reconcile VARBINARY(1024) NOT NULL,
        changes INT UNSIGNED NOT NULL,
        bytes BIGINT UNSIGNED NOT NULL,
        total BIGINT UNSIGNED NOT NULL,
        token BINARY(16) NOT NULL,
        PRIMARY KEY (revision)
    ) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // The newest term of each group of leaders.
    "CREATE TABLE IF NOT EXISTS setpoint_epoch (
        name VARBINARY(255) NOT NULL,
        number BIGINT UNSIGNED NOT NULL,
        PRIMARY KEY (name)
    ) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // One row. Every commit locks it first. History up to `thinned` may lack churn.
    "CREATE TABLE IF NOT EXISTS setpoint_revision (
        id TINYINT NOT NULL,
        head BIGINT UNSIGNED NOT NULL,
        compacted BIGINT UNSIGNED NOT NULL,
        total BIGINT UNSIGNED NOT NULL,
        format INT UNSIGNED NOT NULL,
        thinned BIGINT UNSIGNED NOT NULL DEFAULT 0,
        PRIMARY KEY (id),
        CHECK (id = 1)
    ) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
];

/// What is to know of a server.
pub struct Facts {
    pub max_allowed_packet: usize,
    /// Newer MariaDB servers have the variable `innodb_snapshot_isolation`.
    pub has_snapshot_isolation: bool,
    /// MariaDB has the variable `idle_transaction_timeout`, MySQL does not.
    pub has_idle_transactions: bool,
}

/// Makes the database and its tables when they are missing, and refuses what is not ours to use.
pub async fn prepare(conn: &mut Conn, server: &connect::Server) -> Result<Facts, Refusal> {
    use_database(conn, &server.database).await?;
    let format = match find_format(conn).await? {
        Some(format) => format,
        None => {
            create_tables(conn).await?;
            find_format(conn).await?.unwrap_or(FORMAT)
        }
    };
    if format > FORMAT {
        let file = format!("mysql database {}", server.database);
        let error = Error::NewerFormat { file, found: format, supported: FORMAT };
        return Err(Refusal::Final(error));
    }
    if format < FORMAT {
        upgrade(conn).await?;
    }
    let max_allowed_packet = conn.query_first("SELECT @@max_allowed_packet").await?.unwrap_or(0);
    if max_allowed_packet < PACKET_BYTES_MIN {
        let what = format!(
            "{} takes packets of {max_allowed_packet} bytes; set max_allowed_packet to at least \
             {PACKET_BYTES_MIN}",
            server.name
        );
        return Err(Refusal::Final(Error::Invalid { what }));
    }
    Ok(Facts {
        max_allowed_packet,
        has_snapshot_isolation: has_variable(conn, "innodb_snapshot_isolation").await?,
        has_idle_transactions: has_variable(conn, "idle_transaction_timeout").await?,
    })
}

async fn has_variable(conn: &mut Conn, name: &str) -> Result<bool, mysql_async::Error> {
    let show = format!("SHOW VARIABLES LIKE '{name}'");
    let variable: Option<(String, String)> = conn.query_first(show).await?;
    Ok(variable.is_some())
}

async fn use_database(conn: &mut Conn, database: &str) -> Result<(), mysql_async::Error> {
    let quoted = format!("`{}`", database.replace('`', "``"));
    // An account may use a database that it may not make, so only a missing one is made.
    match conn.query_drop(format!("USE {quoted}")).await {
        Err(error) if server_code(&error) == Some(UNKNOWN_DATABASE) => {}
        other => return other,
    }
    conn.query_drop(format!("CREATE DATABASE IF NOT EXISTS {quoted}")).await?;
    conn.query_drop(format!("USE {quoted}")).await
}

async fn find_format(conn: &mut Conn) -> Result<Option<u32>, mysql_async::Error> {
    match conn.query_first("SELECT format FROM setpoint_revision WHERE id = 1").await {
        Err(error) if server_code(&error) == Some(UNKNOWN_TABLE) => Ok(None),
        other => other,
    }
}

async fn create_tables(conn: &mut Conn) -> Result<(), mysql_async::Error> {
    for table in TABLES {
        conn.query_drop(table).await?;
    }
    // Another process may be doing the same.
    let row = format!(
        "INSERT IGNORE INTO setpoint_revision (id, head, compacted, total, format) \
         VALUES (1, 0, 0, 0, {FORMAT})"
    );
    conn.query_drop(row).await
}

/// From the first format, which knew no thinning. Programs of it go on meanwhile: they name the
/// columns that they use.
async fn upgrade(conn: &mut Conn) -> Result<(), mysql_async::Error> {
    let column = "ALTER TABLE setpoint_revision ADD COLUMN thinned BIGINT UNSIGNED NOT NULL \
                  DEFAULT 0";
    match conn.query_drop(column).await {
        // Another process was faster.
        Err(error) if server_code(&error) == Some(DUPLICATE_COLUMN) => {}
        other => other?,
    }
    conn.query_drop(format!("UPDATE setpoint_revision SET format = {FORMAT} WHERE id = 1")).await
}

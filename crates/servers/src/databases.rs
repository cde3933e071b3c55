//! Images of MySQL and etcd for engines that reach no registry: roots of the machine's own programs
//! with the libraries that they need, under the names by which others know them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::engine::{Engine, shell_root};
use crate::error::Error;
use crate::program;

/// What the image of MySQL does when it starts: makes the data once, then serves.
const ENTRYPOINT: &str = r#"#!/bin/sh
set -e
data=/var/lib/mysql
if [ ! -d $data/mysql ]; then
  /usr/bin/mariadb-install-db --force --no-defaults --user=root --datadir=$data --skip-test-db \
    --auth-root-authentication-method=normal --skip-name-resolve >/tmp/install.log 2>&1
  {
    echo "DROP USER IF EXISTS root@'127.0.0.1', root@'::1';"
    echo "CREATE USER root@'%' IDENTIFIED BY '$MYSQL_ROOT_PASSWORD';"
    echo "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;"
    echo "CREATE DATABASE IF NOT EXISTS \`$MYSQL_DATABASE\`;"
    if [ -n "$MYSQL_USER" ]; then
      echo "CREATE USER '$MYSQL_USER'@'%' IDENTIFIED BY '$MYSQL_PASSWORD';"
      echo "GRANT ALL ON \`$MYSQL_DATABASE\`.* TO '$MYSQL_USER'@'%';"
    fi
  } > $data/first.sql
fi
first=
if [ -f $data/first.sql ]; then
  mv $data/first.sql /tmp/first.sql
  first=--init-file=/tmp/first.sql
fi
exec /usr/sbin/mariadbd --no-defaults --user=root --datadir=$data --skip-name-resolve \
  --socket=/tmp/mysql.sock --innodb-buffer-pool-size=16M --innodb-log-file-size=8M $first "$@"
"#;

impl Engine {
    /// An image of MySQL, which is the machine's MariaDB.
    pub fn make_mysql(&self, name: &str) -> Result<(), Error> {
        let doing = "make an image of MariaDB";
        let root = self.path().join("mysql");
        shell_root(&root, &self.path().join("mysql.tar")).map_err(Error::io(doing))?;
        let programs = ["mariadbd", "mariadb-install-db", "my_print_defaults"];
        for program in programs {
            let found = program::find(program)?;
            take(&root, &found).map_err(Error::io(doing))?;
        }
        let copied = copy_tree(Path::new("/usr/share/mysql"), &root).and_then(|()| {
            fs::write(root.join("entrypoint.sh"), ENTRYPOINT)?;
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(root.join("entrypoint.sh"), executable)?;
            fs::create_dir_all(root.join("var/lib/mysql"))
        });
        copied.map_err(Error::io(doing))?;
        self.import_root(name, &root, "&changes=ENTRYPOINT%20%5B%22%2Fentrypoint.sh%22%5D")
    }

    /// An image of etcd, which has no entrypoint, as the usual one.
    pub fn make_etcd(&self, name: &str) -> Result<(), Error> {
        let doing = "make an image of etcd";
        let root = self.path().join("etcd");
        let found = program::find("etcd")?;
        let made = fs::create_dir_all(root.join("usr/local/bin")).and_then(|()| {
            fs::create_dir_all(root.join("tmp"))?;
            fs::create_dir_all(root.join("etcd-data"))?;
            fs::copy(&found, root.join("usr/local/bin/etcd"))?;
            libraries(&root, &found)
        });
        made.map_err(Error::io(doing))?;
        self.import_root(name, &root, "")
    }
}

/// Copies a program to where it is on the machine, with its libraries.
fn take(root: &Path, program: &Path) -> io::Result<()> {
    let program = fs::canonicalize(program)?;
    // Scripts look for others where they are installed.
    for directory in ["usr/bin", "usr/sbin"] {
        fs::create_dir_all(root.join(directory))?;
        let name = program.file_name().unwrap_or_default();
        fs::copy(&program, root.join(directory).join(name))?;
    }
    libraries(root, &program)
}

fn libraries(root: &Path, program: &Path) -> io::Result<()> {
    let told = Command::new("ldd").arg(program).output()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    for word in told.split_whitespace().filter(|word| word.starts_with('/')) {
        let path = PathBuf::from(word);
        let target = root.join(word.trim_start_matches('/'));
        fs::create_dir_all(target.parent().unwrap_or(root))?;
        if !target.exists() {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

fn copy_tree(from: &Path, root: &Path) -> io::Result<()> {
    let to = root.join(from.strip_prefix("/").unwrap_or(from));
    fs::create_dir_all(to.parent().unwrap_or(root))?;
    let copied = Command::new("cp").args(["-rL", "--"]).arg(from).arg(&to).status()?;
    if copied.success() { Ok(()) } else { Err(io::Error::other("cp failed")) }
}

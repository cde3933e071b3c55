//! Protected connections.
//!
//! The certificates in `tls/` are for these tests alone; their authority's key was thrown away.

use std::path::PathBuf;

use mysql_async::prelude::Queryable;
use servers::MariaDb;
use store::Error;
use store::backends::mysql::{Settings, Tls};

use crate::support::{connect, contents, open, put, settings_of, shared, try_open};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/mysql_faults/tls").join(name)
}

fn on(ca_file: &str) -> Tls {
    Tls::On { ca_file: Some(file(ca_file)) }
}

#[tokio::test]
async fn tls_is_spoken_in_its_newer_versions_with_a_known_server_only() {
    for version in ["TLSv1.2", "TLSv1.3"] {
        let server = MariaDb::start_with(&[
            &format!("--ssl-cert={}", file("server.pem").display()),
            &format!("--ssl-key={}", file("server.key").display()),
            &format!("--tls-version={version}"),
        ])
        .unwrap();
        let settings = settings_of(&server);
        let require = "CREATE USER 'careful'@'%' IDENTIFIED BY 'word' REQUIRE SSL; \
                       GRANT ALL PRIVILEGES ON *.* TO 'careful'@'%'";
        connect(&settings).await.query_drop(require).await.unwrap();
        let careful =
            Settings { user: "careful".into(), password: "word".into(), ..settings.clone() };

        let plain = try_open(&careful).await.err().unwrap();
        assert!(matches!(plain, Error::Login { .. }), "{version}: {plain:?}");
        let store = open(&Settings { tls: on("ca.pem"), ..careful.clone() }).await;
        store.commit(put("a", "1", None)).await.unwrap();
        assert_eq!(contents(&*store).await.len(), 1);
        store.close().await;

        for unknown in [on("other-ca.pem"), on("missing.pem"), Tls::On { ca_file: None }] {
            let error =
                try_open(&Settings { tls: unknown, ..careful.clone() }).await.err().unwrap();
            assert!(matches!(error, Error::Connect { .. }), "{version}: {error:?}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}

#[tokio::test]
async fn tls_is_refused_by_a_server_without_it() {
    let settings = Settings { tls: on("ca.pem"), ..shared() };
    let error = try_open(&settings).await.err().unwrap();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
}

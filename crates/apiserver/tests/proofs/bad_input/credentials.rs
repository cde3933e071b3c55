//! Credentials that are not believed are 401, never anonymous.

use apiserver::identity::User;
use apiserver::identity::certificates::{Authority, ClientRequest};
use apiserver::identity::claims::{Bound, Claims, Reference};
use apiserver::identity::key_files::Directory;
use store::{Environment, System};

use super::super::world::World;
use super::wire::{self, Identity};

const PATH: &str = "/api/v1/namespaces";

async fn status_with(world: &World, identity: &Identity, header: &str) -> (u16, String) {
    let text = format!("GET {PATH} HTTP/1.1\r\nhost: localhost\r\n{header}\r\n");
    let reply = wire::send(world, identity, text.as_bytes()).await.unwrap();
    (reply.status, reply.body)
}

fn now() -> i64 {
    System.now().0 / 1_000_000
}

/// What a token of the account `default` would say, if it existed.
fn claims(expires_at: i64, issuer: &str) -> Claims {
    let account = Reference { name: "robot".to_owned(), uid: "u".to_owned() };
    Claims {
        issuer: issuer.to_owned(),
        namespace: "default".to_owned(),
        account,
        bound: Bound::Account,
        audiences: vec![issuer.to_owned()],
        issued_at: expires_at - 3_600,
        not_before: expires_at - 3_600,
        expires_at,
        id: "id".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_are_not_believed_are_unauthorized() {
    let world = World::real().await;
    let issuer = world.server.tokens.issuer.clone();
    let expired = world.server.tokens.issue(&claims(now() - 120, &issuer)).unwrap();
    let early = world.server.tokens.issue(&claims(now() + 86_400, &issuer)).unwrap();
    let foreign = world.server.tokens.issue(&claims(now() + 60, "https://elsewhere")).unwrap();
    let nobodys = world.server.tokens.issue(&claims(now() + 60, &issuer)).unwrap();
    let (head, _) = nobodys.rsplit_once('.').unwrap();
    let tokens = [
        ("garbage", "garbage".to_owned()),
        ("three parts of nothing", "a.b.c".to_owned()),
        ("no algorithm", "eyJhbGciOiJub25lIn0.e30.".to_owned()),
        ("an expired one", expired),
        ("one of tomorrow", early),
        ("one of another issuer", foreign),
        ("one of an account that is gone", nobodys.clone()),
        ("one without a signature", format!("{head}.")),
        ("one with another's signature", format!("{head}.AAAA")),
        ("a very long one", "a".repeat(20_000)),
    ];
    // A good certificate does not make up for a bad token.
    for identity in [Identity::of(&world, None), Identity::admin(&world)] {
        for (what, token) in &tokens {
            let header = format!("authorization: Bearer {token}\r\n");
            let (status, body) = status_with(&world, &identity, &header).await;
            assert_eq!(status, 401, "{what}: {body}");
            let status: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(status["message"], "Unauthorized", "{what}");
            assert_eq!(status["reason"], "Unauthorized", "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shows_nothing_is_anonymous_and_may_nothing() {
    let world = World::real().await;
    let (status, body) = status_with(&world, &Identity::of(&world, None), "").await;
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("User \\\"system:anonymous\\\" cannot list resource"), "{body}");
}

/// The handshake itself refuses them, before there is a request to answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_another_authority_and_expired_ones_reach_nothing() {
    let world = World::real().await;
    let files = Directory { path: world.directory.join("another") };
    let another = Authority::load_or_create(&files, now()).unwrap();
    let ours = Directory { path: world.directory.join("pki") };
    let ours = Authority::load_or_create(&ours, now()).unwrap();
    let user = User::authenticated("admin", ["system:masters"]);
    let request = || ClientRequest { user: &user, lifetime_seconds: 3_600 };
    let cases = [
        ("of another authority", another.issue_client(request(), now())),
        ("expired", ours.issue_client(request(), now() - 86_400)),
    ];
    for (what, issued) in cases {
        let issued = issued.unwrap();
        let (certificate, key) = (issued.certificate_pem(), issued.key_pem());
        let identity = Identity::of(&world, Some((&certificate, &key)));
        let text = format!("GET {PATH} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        match wire::send(&world, &identity, text.as_bytes()).await {
            Err(_) => {}
            Ok(reply) => assert_eq!(reply.status, 401, "{what}: {}", reply.body),
        }
    }
}

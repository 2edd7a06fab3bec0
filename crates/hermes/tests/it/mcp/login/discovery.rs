//! Metadata that lead astray are not followed.

use hermes_testkit::authorization::{Challenge, Discovery, MetadataLocation};

use super::*;

/// The login ended before anybody was sent anywhere, and said why.
#[track_caller]
fn refused(place: &OAuthHome, words: &[&str]) {
    let ran = place.refused_login();
    assert_ne!(ran.code, 0, "{ran:#?}");
    for word in words {
        assert!(ran.stderr.contains(word), "no `{word}`: {ran:#?}");
    }
    assert!(place.server.requests_to(Endpoint::Registration).is_empty());
    assert!(place.server.requests_to(Endpoint::Token).is_empty());
    assert!(!place.token_file().exists());
}

fn lie(url: &str) -> EndpointFault {
    EndpointFault::Advertised(url.to_owned())
}

#[test]
fn an_authorization_server_is_found_in_every_place_of_the_standards() {
    for discovery in [
        Discovery::OAuth,
        Discovery::OpenIdInserted,
        Discovery::OpenIdAppended,
    ] {
        for path in ["", "/tenant"] {
            let setup = AuthorizationSetup::with(|setup| {
                setup.discovery = discovery;
                setup.path = path.to_owned();
            });
            let resource = Resource::with(|resource| {
                resource.challenge = Challenge::Plain;
                resource.metadata = MetadataLocation::Root;
            });
            let place = OAuthHome::new(setup, resource);
            place.log_in().ok();
            place.works();
        }
    }
}

#[test]
fn a_server_that_describes_nothing_is_its_own_authorization_server() {
    let resource = Resource::with(|resource| {
        resource.challenge = Challenge::Plain;
        resource.metadata = MetadataLocation::None;
    });
    let (server, mcp) =
        AuthorizationServer::start_sharing_origin(AuthorizationSetup::default(), resource);
    let hermes = Hermes::new();
    let place = OAuthHome {
        hermes,
        server,
        mcp,
    };
    place.configure(json!({}));
    place.log_in().ok();
    place.works();
}

#[test]
fn metadata_of_another_issuer_are_refused() {
    let place = OAuthHome::usual();
    place
        .server
        .fail(Endpoint::ServerMetadata, lie("https://bank.example"));
    refused(&place, &["https://bank.example", &place.server.issuer()]);
}

#[test]
fn metadata_of_another_resource_are_refused() {
    let place = OAuthHome::usual();
    place
        .server
        .fail(Endpoint::Resource, lie("https://bank.example/mcp"));
    refused(&place, &["https://bank.example/mcp", &place.mcp.url()]);
}

#[test]
fn a_server_without_pkce_is_refused() {
    let setup = AuthorizationSetup::with(|setup| setup.challenge_methods.clear());
    refused(&OAuthHome::new(setup, Resource::default()), &["PKCE"]);
    let setup =
        AuthorizationSetup::with(|setup| setup.challenge_methods = vec!["plain".to_owned()]);
    refused(&OAuthHome::new(setup, Resource::default()), &["PKCE"]);
}

#[test]
fn a_server_on_the_internet_does_not_lead_into_the_network_at_home() {
    for inside in [
        "https://169.254.169.254/latest",
        "https://10.0.0.1/",
        "https://127.0.0.1:1/",
    ] {
        let place = OAuthHome::usual();
        place.server.fail(Endpoint::Challenge, lie(inside));
        // The server has a public address, at which a proxy answers for it.
        let config = json!({ "mcp_servers": { "remote": { "url": "http://8.8.4.4/mcp", "auth": "oauth" } } });
        place.hermes.home.write_config(&config.to_string());
        let mut command = place
            .hermes
            .command(&["mcp", "login", "remote", "--no-browser"]);
        command.env("http_proxy", place.mcp.origin());
        let ran = crate::harness::program::run(command, "");
        assert_ne!(ran.code, 0, "{ran:#?}");
        let refusal = format!("{inside} is not requested: it is an address of a private network");
        assert!(ran.stderr.contains(&refusal), "{ran:#?}");
    }
}

#[test]
fn metadata_are_not_fetched_from_another_origin_by_a_redirect() {
    for endpoint in [Endpoint::ResourceMetadata, Endpoint::ServerMetadata] {
        let place = OAuthHome::usual();
        let elsewhere = AuthorizationServer::start(AuthorizationSetup::default());
        let url = format!(
            "{}/.well-known/oauth-authorization-server",
            elsewhere.issuer()
        );
        place.server.fail(endpoint, EndpointFault::Redirect(url));
        refused(&place, &["redirects to", &elsewhere.issuer()]);
        assert!(elsewhere.requests().is_empty());
    }
}

#[test]
fn metadata_that_are_not_json_are_refused() {
    for (endpoint, junk, why) in [
        (
            Endpoint::ResourceMetadata,
            "<html>",
            "does it support OAuth?",
        ),
        (
            Endpoint::ServerMetadata,
            "[1, 2",
            "it publishes no metadata",
        ),
        (Endpoint::ServerMetadata, "{}", "its issuer is ``"),
    ] {
        let place = OAuthHome::usual();
        place
            .server
            .fail(endpoint, EndpointFault::Junk(junk.to_owned()));
        refused(&place, &[why]);
    }
}

#[test]
fn metadata_that_fail_end_the_login_with_the_address() {
    let place = OAuthHome::usual();
    place
        .server
        .fail(Endpoint::ServerMetadata, EndpointFault::Status(500));
    refused(&place, &[&place.server.issuer()]);
}

#[test]
fn nothing_of_the_old_authorization_server_goes_to_a_new_one() {
    let old = AuthorizationServer::start(AuthorizationSetup::with(|setup| {
        setup.lifetime = SHORT_LIFETIME;
    }));
    let new = AuthorizationServer::start(AuthorizationSetup::default());
    let mcp = old.protect(Resource::default().trusting(&new));
    let place = OAuthHome {
        hermes: Hermes::new(),
        server: old,
        mcp,
    };
    place.configure(json!({}));
    place.log_in().ok();
    place.works();
    let secrets = place.server.secrets();
    place
        .server
        .fail(Endpoint::ResourceMetadata, lie(&new.issuer()));
    place.server.revoke_everything();
    place.needs_login();
    place.log_in().ok();
    place.works();
    assert!(!new.requests_to(Endpoint::Token).is_empty());
    for request in new.requests() {
        let sent = format!("{} {} {:?}", request.path, request.body, request.headers);
        assert!(
            secrets.iter().all(|secret| !sent.contains(secret)),
            "{sent}"
        );
    }
}

//! Nothing that only the two sides should know is shown, logged or written anywhere but into the token files.

use std::path::Path;

use super::*;

/// Every file below a directory, but for the tokens' own.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().unwrap() != "mcp-tokens" {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

#[track_caller]
fn no_secret_in(place: &Place, what: &str, text: &str) {
    for secret in place.server.secrets() {
        assert!(!text.contains(&secret), "{what} holds {secret}:\n{text}");
    }
}

#[test]
fn neither_output_nor_logs_hold_a_secret() {
    let setup = Setup::with(|setup| setup.lifetime = SHORT);
    let place = Place::new(setup, Resource::default());
    let mut shown = Vec::new();
    let mut show = |name: &str, text: String| shown.push((name.to_owned(), text));
    let ran = |ran: Ran| format!("{}\n{}", ran.stdout, ran.stderr);
    show("login", place.log_in().ok().screen);
    for command in [
        vec!["mcp", "call", "remote", "echo", r#"{"text":"a"}"#, "--json"],
        vec!["mcp", "test", "remote", "--json"],
        vec!["mcp", "test", "remote"],
        vec!["mcp", "list", "--json"],
        vec!["mcp", "status", "--json"],
        vec!["mcp", "doctor", "--probe", "--json"],
    ] {
        let mut run = place.hermes.command(&command);
        run.env("RUST_LOG", "trace").env("HERMES_LOG", "trace");
        show(command[1], ran(crate::program::run(run, "")));
    }
    for (name, fault) in [
        ("failing refresh", EndpointFault::Status(500)),
        ("junk", EndpointFault::Junk("{\"error\":\"x\"}".to_owned())),
    ] {
        place.server.fail(Endpoint::Token, fault);
        place.server.expire_access_tokens();
        show(name, ran(place.call()));
        show(name, place.log_in().failed(&[]).screen);
    }
    place.server.mend(Endpoint::Token);
    place.server.revoke_everything();
    show("revoked", ran(place.call()));
    for (name, text) in shown {
        no_secret_in(&place, &name, &text);
    }
    let mut written = Vec::new();
    files(place.hermes.home.path(), &mut written);
    assert!(!written.is_empty());
    for path in written {
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        no_secret_in(&place, &path.display().to_string(), &text);
    }
}

#[test]
fn a_server_that_repeats_the_token_in_its_errors_does_not_get_it_shown() {
    let place = Place::usual();
    place.log_in().ok();
    let token = place.tokens()["access_token"].as_str().unwrap().to_owned();
    // The token endpoint repeats what it was sent.
    let refresh = place.tokens()["refresh_token"].as_str().unwrap().to_owned();
    let body =
        json!({ "error": "invalid_grant", "error_description": format!("no {refresh} here") });
    place.server.expire_access_tokens();
    place
        .server
        .fail(Endpoint::Token, EndpointFault::Junk(body.to_string()));
    place.call().hides(&[&token, &refresh]);
}

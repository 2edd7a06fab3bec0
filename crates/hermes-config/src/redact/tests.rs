//! One case that must go and one that must stay for every kind of credential; and generated credentials in generated
//! texts, of which none gets through.

use proptest::prelude::*;

use super::*;

fn redacted(text: &str) -> String {
    Redactor::default().redact(text).into_owned()
}

fn goes(text: &str, expected: &str) {
    assert_eq!(redacted(text), expected);
    assert_eq!(
        redacted(expected),
        expected,
        "redacting again changes nothing"
    );
    let upper = redacted(&text.to_uppercase());
    assert!(upper.contains(REPLACEMENT), "any case: {upper}");
}

fn stays(text: &str) {
    let redactor = Redactor::default();
    let result = redactor.redact(text);
    assert_eq!(result, text);
    assert!(matches!(result, Cow::Borrowed(_)));
}

#[test]
fn github_tokens() {
    for prefix in ["ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_"] {
        goes(
            &format!("bad {prefix}A1b2_C3d4, retry"),
            "bad [REDACTED], retry",
        );
    }
    goes("url?x=ghp_abc123", "url?x=[REDACTED]");
    goes("ghp_one1 ghp_two2", "[REDACTED] [REDACTED]");
    stays("highp_precision, ghp and github_path are words");
}

#[test]
fn sk_keys() {
    goes("key sk-abc123 is wrong", "key [REDACTED] is wrong");
    goes("(sk-proj-A_b-C9)", "([REDACTED])");
    goes("sk-ant-api03-x_y", "[REDACTED]");
    stays("a task-force took the risk-free sk- prefix");
}

#[test]
fn slack_tokens() {
    goes("xoxb-123-abc!", "[REDACTED]!");
    goes("xoxp-9", "[REDACTED]");
    stays("xox-games and xoxo");
}

#[test]
fn aws_access_keys() {
    goes("id AKIAIOSFODNN7EXAMPLE.", "id [REDACTED].");
    stays("AKIA123 is too short, AKIAIOSFODNN7EXAMPLEX too long");
}

#[test]
fn json_web_tokens() {
    goes("got eyJhbGciOi.eyJzdWIi.sig-_1 back", "got [REDACTED] back");
    goes("eyJhbGciOi.eyJzdWIi.", "[REDACTED]");
    stays("eyJhbGciOi alone, eyJhb.two parts");
}

#[test]
fn bearer_tokens() {
    goes(
        "Authorization: Bearer abc.def-1",
        "Authorization: [REDACTED]",
    );
    goes("bearer   hunter", "[REDACTED]");
    stays("missing bearer token. Send a Bearer authentication header");
    stays("WWW-Authenticate: Bearer realm=\"x\", scope=\"y\"");
}

#[test]
fn basic_credentials() {
    // Base64 itself has a case, so only the word before it is tried in others.
    for scheme in ["Basic", "basic", "BASIC"] {
        let credentials = redacted(&format!("Authorization: {scheme} dXNlcjpwYXNz"));
        assert_eq!(credentials, "Authorization: [REDACTED]");
    }
    assert_eq!(redacted("basic YTpi"), "[REDACTED]");
    assert_eq!(redacted("Basic QUJDREVGR0hJSktM"), "[REDACTED]");
    stays("basic auth, Basic usage and basic authentication");
}

#[test]
fn assignments() {
    goes("token=abc", "[REDACTED]");
    goes("?key=abc&page=2", "?[REDACTED]&page=2");
    goes("API_KEY=abc,next", "[REDACTED],next");
    goes("password=p@ss;x", "[REDACTED];x");
    goes("say secret=abc def", "say [REDACTED] def");
    goes(
        "GITHUB_TOKEN=abc client_secret=def x-api-key=ghi",
        "[REDACTED] [REDACTED] [REDACTED]",
    );
    goes("accessToken='two words' end", "[REDACTED] end");
    goes("password = hunter2", "[REDACTED]");
    stays("monkey=banana, hockey=1, tokens=5, the key is missing, key= ");
    stays("if token == other");
}

#[test]
fn json_members_keep_their_name() {
    goes(
        r#"{"token": "abc", "n": 1}"#,
        r#"{"token": "[REDACTED]", "n": 1}"#,
    );
    goes(r#"{"api_key":"a\"b"}"#, r#"{"api_key":"[REDACTED]"}"#);
    goes(r#"{"accessToken" : "x"#, r#"{"accessToken" : "[REDACTED]"#);
    goes(
        r#""{\"secret\": \"abc\"}""#,
        r#""{\"secret\": \"[REDACTED]\"}""#,
    );
    goes(
        "{'password': 'abc', 'a': 1}",
        "{'password': '[REDACTED]', 'a': 1}",
    );
    stays(r#"{"monkey": "abc", "tokens": 5, "token_count": "7", "token": 3}"#);
}

#[test]
fn credentials_beyond_ascii_go_as_a_whole() {
    goes("password=pässwört, ö", "[REDACTED], ö");
    goes("größtes token='ü ü' ü", "größtes [REDACTED] ü");
    goes(
        r#"{"key": "aß\ü\"é", "é": "é"}"#,
        r#"{"key": "[REDACTED]", "é": "é"}"#,
    );
    goes("ß://ftp://ü:é@host/ü", "ß://ftp://[REDACTED]@host/ü");
    goes("éghp_abcé", "é[REDACTED]é");
    goes("→Bearer abc←", "→[REDACTED]←");
}

#[test]
fn users_and_passwords_in_addresses() {
    goes(
        "postgres://user:pass@localhost/db",
        "postgres://[REDACTED]@localhost/db",
    );
    goes(
        "see https://me:p@ss@host.example:8080/x.",
        "see https://[REDACTED]@host.example:8080/x.",
    );
    goes("redis://:pw@h", "redis://[REDACTED]@h");
    stays("https://host.example/@user?x=a@b and mail me@host.example");
}

#[test]
fn own_secrets_go_wherever_they_stand() {
    let redactor = Redactor::new(
        [
            "correct horse",
            "correct horse battery",
            "correct horse",
            "",
        ]
        .map(|s| Secret::new(s.into())),
    );
    assert_eq!(
        redactor.redact("x correct horse battery, correct horse."),
        "x [REDACTED], [REDACTED]."
    );
    assert!(matches!(
        redactor.redact("a correct answer"),
        Cow::Borrowed(_)
    ));
    assert!(!format!("{redactor:?}").contains("horse"));
}

#[test]
fn an_own_secret_inside_a_longer_credential_leaves_nothing_behind() {
    let redactor = Redactor::new([Secret::new("abcdef".to_owned())]);
    assert_eq!(redactor.redact("Bearer abcdef."), "[REDACTED]");
    assert_eq!(redactor.redact("token=abcdefghi"), "[REDACTED]");
    assert_eq!(redactor.redact("sk-abcdef-tail"), "[REDACTED]");
    assert_eq!(redactor.redact("abcdefabcdef"), "[REDACTED][REDACTED]");
}

#[test]
fn a_pattern_inside_an_own_secret_leaves_nothing_behind() {
    let redactor = Redactor::new([Secret::new("my key=1 is long".to_owned())]);
    assert_eq!(redactor.redact("<my key=1 is long>"), "<[REDACTED]>");
}

#[test]
fn text_without_credentials_is_not_copied() {
    stays("An ordinary error: connection refused (os error 111) at 127.0.0.1:8080\nÄÖÜ 你好");
}

#[test]
fn values_of_secret_variables_are_known() {
    let variables = Variables::from_pairs([
        ("TEAM_API_KEY", "plain-looking-value"),
        ("EDITOR", "some-long-editor"),
        ("PIN_TOKEN", "1234"),
    ]);
    let redactor = Redactor::for_variables(&variables);
    assert_eq!(
        redactor.redact("plain-looking-value some-long-editor 1234"),
        "[REDACTED] some-long-editor 1234"
    );
}

#[test]
fn own_secrets_go_in_any_case_and_spelling() {
    let redactor = Redactor::new([Secret::new("My \"Pass\"/word".to_owned())]);
    for text in [
        "<my \"PASS\"/WORD>",
        r#"<My \"Pass\"/word>"#,
        "<My+%22Pass%22%2Fword>",
        "<my%20%22pass%22%2fword>",
    ] {
        assert_eq!(redactor.redact(text), "<[REDACTED]>", "{text}");
    }
}

#[test]
fn a_secret_of_several_lines_is_known_by_each_long_one() {
    let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nshort\n-----END KEY-----";
    let redactor = Redactor::new([Secret::new(key.to_owned())]);
    let text = redactor.redact("line 2: MIIEvQIBADANBgkqhkiG9w0BAQEFAASC; short");
    assert_eq!(text, "line 2: [REDACTED]; short");
}

#[test]
fn a_text_is_not_cut_within_a_secret_nor_where_one_may_begin() {
    let redactor = Redactor::new([Secret::new("Tea-for-two".to_owned())]);
    let every = |text: &str| redactor.first_safe_cut(text, (0..=text.len()).rev());
    assert_eq!(every("nothing here"), Some(12));
    assert_eq!(every("may be t"), Some(7));
    assert_eq!(every("may be TEA-FOR-"), Some(7));
    assert_eq!(every("it was tea-for-two"), Some(18));
    assert_eq!(
        every("it was tea-for-tea"),
        Some(15),
        "a second one may begin"
    );
    let inside = "it was tea-for-two, no more";
    assert_eq!(redactor.first_safe_cut(inside, [12, 7]), Some(7));
    assert_eq!(redactor.first_safe_cut("te", [2, 1]), None);
    assert_eq!(redactor.first_safe_cut("ä", [2]), Some(2));
}

/// A credential, and the part of it that must not be left.
fn credential() -> impl Strategy<Value = (String, String)> {
    let whole = |text: String| (text.clone(), text);
    let named = |name: &str, value: String| (format!("{name}={value}"), value);
    prop_oneof![
        "(ghp|gho|ghs|ghu)_[A-Za-z0-9]{10,40}".prop_map(whole),
        "github_pat_[A-Za-z0-9_]{10,60}".prop_map(whole),
        "sk-(proj-|ant-)?[A-Za-z0-9_-]{10,60}".prop_map(whole),
        "xox[abprs]-[0-9]{6,12}-[A-Za-z0-9]{10,20}".prop_map(whole),
        "AKIA[0-9A-Z]{16}".prop_map(whole),
        "eyJ[A-Za-z0-9_-]{8,30}\\.[A-Za-z0-9_-]{8,30}\\.[A-Za-z0-9_-]{8,30}".prop_map(whole),
        "[A-Za-z0-9._~+/-]{16,40}".prop_map(|token| (format!("Bearer {token}"), token)),
        "[A-Za-z0-9+/]{20,40}={0,2}".prop_map(|code| (format!("Basic {code}"), code)),
        (secret_name(), "[A-Za-z0-9!#$%*+./:?@^_~-]{6,30}")
            .prop_map(move |(name, value)| named(&name, value)),
        (secret_name(), "[A-Za-z0-9 !#$%&*,;]{6,30}")
            .prop_map(|(name, value)| (format!("\"{name}\": \"{value}\""), value)),
        "[a-z]{3,8}:[A-Za-z0-9!$*._~-]{6,20}"
            .prop_map(|login| (format!("https://{login}@host.example/x"), login)),
    ]
}

fn secret_name() -> impl Strategy<Value = String> {
    let names = [
        "token",
        "key",
        "API_KEY",
        "password",
        "secret",
        "GITHUB_TOKEN",
        "client_secret",
        "accessToken",
    ];
    proptest::sample::select(names.to_vec()).prop_map(str::to_owned)
}

/// What stands around a credential in messages. It ends one, but is not part of one.
fn frame() -> impl Strategy<Value = (String, String)> {
    let frames = [
        ("", ""),
        ("error: ", " was refused"),
        ("line one\n", "\nline three"),
        ("(", ")"),
        ("größer → ", " ← kleiner"),
        ("status 401, ", ", try again"),
        ("[", "]"),
    ];
    proptest::sample::select(frames.to_vec()).prop_map(|(a, b)| (a.to_owned(), b.to_owned()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_generated_credential_is_left(
        (text, secret) in credential(),
        (before, after) in frame(),
    ) {
        let message = format!("{before}{text}{after}");
        let redactor = Redactor::default();
        let redacted = redactor.redact(&message).into_owned();
        prop_assert!(redacted.contains(REPLACEMENT), "{message} -> {redacted}");
        prop_assert!(!redacted.contains(&secret), "{message} -> {redacted}");
        prop_assert_eq!(&redactor.redact(&redacted), &redacted, "again changes nothing");
    }

    #[test]
    fn no_own_secret_is_left_in_any_spelling(
        secret in "\\PC{6,60}",
        before in "\\PC{0,20}",
        after in "\\PC{0,20}",
        shout in any::<bool>(),
    ) {
        let redactor = Redactor::new([Secret::new(secret.clone())]);
        for spelling in spellings(&secret) {
            let spelling = if shout { spelling.to_ascii_uppercase() } else { spelling };
            let message = format!("{before} {spelling} {after}");
            let redacted = redactor.redact(&message).to_ascii_lowercase();
            let rest = redacted.replace(&REPLACEMENT.to_ascii_lowercase(), "\u{1}");
            prop_assert!(
                !rest.contains(&spelling.to_ascii_lowercase()),
                "{message} -> {redacted}"
            );
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}", secret in "\\PC{0,10}") {
        Redactor::new([Secret::new(secret)]).redact(&text);
    }
}

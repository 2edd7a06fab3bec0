use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicU64, Ordering},
};

use super::*;

struct PairingFixture {
    home: tempfile::TempDir,
    now: Arc<AtomicU64>,
    store: PairingStore,
}

impl PairingFixture {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicU64::new(1_700_000_000));
        let clock = Arc::clone(&now);
        let store = PairingStore::with_clock(
            &Home::at(home.path()),
            #[expect(clippy::cast_precision_loss, reason = "seconds of this century")]
            Arc::new(move || clock.load(Ordering::Relaxed) as f64),
        );
        Self { home, now, store }
    }

    fn wait(&self, seconds: u64) {
        self.now.fetch_add(seconds, Ordering::Relaxed);
    }

    fn code(&self, user: &str) -> String {
        match self.store.request_code("telegram", user, "Ann").unwrap() {
            CodeOffer::Issued(code) => code.expose().clone(),
            other => panic!("{other:?}"),
        }
    }

    fn offer(&self, user: &str) -> CodeOffer {
        self.store.request_code("telegram", user, "Ann").unwrap()
    }

    fn file(&self, name: &str) -> Value {
        let path = self.home.path().join("pairing").join(name);
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }
}

#[test]
fn an_approved_code_lets_its_asker_in_and_revoking_works_at_once() {
    let fixture = PairingFixture::new();
    let code = fixture.code("5");
    assert!(!fixture.store.is_approved("telegram", "5"));
    // Another process approves, as the command line does.
    let other =
        PairingStore::with_clock(&Home::at(fixture.home.path()), fixture.store.clock.clone());
    let user = other
        .approve("telegram", &format!(" {} ", code.to_lowercase()))
        .unwrap();
    assert_eq!(
        (user.user_id.as_str(), user.user_name.as_str()),
        ("5", "Ann")
    );
    assert!(fixture.store.is_approved("telegram", "5"));
    assert!(!fixture.store.is_approved("discord", "5"));
    assert!(!fixture.store.is_approved("telegram@work", "5"));
    // A code works once.
    assert!(matches!(
        other.approve("telegram", &code),
        Err(PairingError::UnknownCode)
    ));
    assert!(other.revoke("telegram", "5").unwrap());
    assert!(!fixture.store.is_approved("telegram", "5"));
    assert!(!other.revoke("telegram", "5").unwrap());
}

#[test]
fn a_code_has_eight_letters_that_are_not_mistaken_for_others() {
    let mut seen = std::collections::HashSet::new();
    for _ in 0..500 {
        let code = new_code().unwrap();
        assert_eq!(code.len(), 8);
        assert!(code.bytes().all(|byte| ALPHABET.contains(&byte)), "{code}");
        assert!(!code.contains(['0', 'O', '1', 'I']), "{code}");
        assert!(seen.insert(code));
    }
}

#[test]
fn the_files_are_private_and_have_no_code_in_them() {
    let fixture = PairingFixture::new();
    let code = fixture.code("5");
    let waiting = fixture.code("6");
    fixture.store.approve("telegram", &code).unwrap();
    let directory = fixture.home.path().join("pairing");
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{entry:?}");
        let text = fs::read_to_string(entry.path()).unwrap();
        assert!(!text.contains(&code) && !text.contains(&waiting));
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(
        names,
        [
            ".lock",
            "_rate_limits.json",
            "telegram-approved.json",
            "telegram-pending.json"
        ]
    );
    let approved = fixture.file("telegram-approved.json");
    assert_eq!(
        approved,
        json!({"5": {"user_name": "Ann", "approved_at": 1_700_000_000.0}})
    );
    let pending = fixture.file("telegram-pending.json");
    let (_, entry) = pending.as_object().unwrap().iter().next().unwrap();
    assert_eq!(entry["user_id"], "6");
    assert_eq!(entry["created_at"], json!(1_700_000_000.0));
    let salt = from_hex(entry["salt"].as_str().unwrap()).unwrap();
    assert_eq!(entry["hash"], hash_code(&waiting, &salt));
    assert!(!format!("{:?}", fixture.offer("7")).contains("Issued(\""));
}

#[test]
fn a_code_is_valid_for_an_hour() {
    let fixture = PairingFixture::new();
    let code = fixture.code("5");
    fixture.wait(3600);
    assert_eq!(fixture.store.list_pending().len(), 1);
    fixture.wait(1);
    assert_eq!(fixture.store.list_pending(), []);
    assert!(matches!(
        fixture.store.approve("telegram", &code),
        Err(PairingError::UnknownCode)
    ));
}

#[test]
fn a_user_gets_one_code_in_ten_minutes_and_the_later_one_counts() {
    let fixture = PairingFixture::new();
    let first = fixture.code("5");
    fixture.wait(599);
    assert_eq!(fixture.offer("5"), CodeOffer::Withheld);
    fixture.wait(1);
    let second = fixture.code("5");
    assert_eq!(fixture.store.list_pending().len(), 1);
    assert!(fixture.store.approve("telegram", &first).is_err());
    assert!(fixture.store.approve("telegram", &second).is_ok());
}

#[test]
fn three_may_wait_on_each_platform() {
    let fixture = PairingFixture::new();
    for user in ["1", "2", "3"] {
        fixture.code(user);
    }
    assert_eq!(fixture.offer("4"), CodeOffer::TooManyPending);
    // That is said once in ten minutes too.
    assert_eq!(fixture.offer("4"), CodeOffer::Withheld);
    let elsewhere = fixture
        .store
        .request_code("telegram@work", "4", "Bo")
        .unwrap();
    assert!(matches!(elsewhere, CodeOffer::Issued(_)));
    assert_eq!(fixture.store.clear_pending().unwrap(), 4);
    fixture.wait(600);
    fixture.code("4");
}

#[test]
fn five_wrong_codes_lock_a_platform_for_an_hour() {
    let fixture = PairingFixture::new();
    let code = fixture.code("5");
    for attempt in 1..=5 {
        let error = fixture.store.approve("telegram", "WRONGWRG").unwrap_err();
        let is_locked = matches!(error, PairingError::LockedOut { minutes: 60 });
        assert_eq!(is_locked, attempt == 5, "{attempt}: {error}");
    }
    // The right code is refused too, and nobody gets a new one.
    assert!(matches!(
        fixture.store.approve("telegram", &code),
        Err(PairingError::LockedOut { .. })
    ));
    assert_eq!(fixture.offer("6"), CodeOffer::Withheld);
    // Another account is not locked.
    assert!(matches!(
        fixture.store.approve("telegram@work", "WRONGWRG"),
        Err(PairingError::UnknownCode)
    ));
    fixture.wait(3600);
    let code = fixture.code("6");
    assert!(fixture.store.approve("telegram", &code).is_ok());
}

#[test]
fn a_clock_that_was_wrong_locks_nobody_out_for_long() {
    let fixture = PairingFixture::new();
    fixture.code("5");
    for _ in 0..5 {
        let _ = fixture.store.approve("telegram", "WRONGWRG");
    }
    fixture.now.store(1_600_000_000, Ordering::Relaxed);
    // Codes of the future are not valid, and neither are its locks.
    assert_eq!(fixture.store.list_pending(), []);
    let code = fixture.code("5");
    assert!(fixture.store.approve("telegram", &code).is_ok());
}

#[test]
fn files_that_are_broken_or_older_let_nobody_in_and_stop_nothing() {
    let fixture = PairingFixture::new();
    let directory = fixture.home.path().join("pairing");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("telegram-approved.json"), "{broken").unwrap();
    fs::write(
        directory.join("telegram-pending.json"),
        r#"{"ABCD2345": {"user_id": "9", "created_at": 1700000000}, "x": 5}"#,
    )
    .unwrap();
    assert!(!fixture.store.is_approved("telegram", "5"));
    assert!(fixture.store.approve("telegram", "ABCD2345").is_err());
    assert_eq!(fixture.store.list_pending(), []);
    let code = fixture.code("5");
    fixture.store.approve("telegram", &code).unwrap();
    assert!(fixture.store.is_approved("telegram", "5"));
}

#[test]
fn the_directory_of_newer_homes_of_0_19_is_used_where_it_has_the_files() {
    let fixture = PairingFixture::new();
    let other = fixture.home.path().join("platforms/pairing");
    fs::create_dir_all(&other).unwrap();
    let approved = r#"{"5": {"user_name": "Ann", "approved_at": 1.5}}"#;
    fs::write(other.join("telegram-approved.json"), approved).unwrap();
    assert!(fixture.store.is_approved("telegram", "5"));
    assert_eq!(fixture.store.list_approved()[0].approved_at, Some(1.5));
    assert!(fixture.store.revoke("telegram", "5").unwrap());
    assert!(!fixture.store.is_approved("telegram", "5"));
    assert!(!fixture.home.path().join("pairing").exists());
}

#[test]
fn two_who_ask_at_once_both_get_a_code_that_works() {
    let fixture = PairingFixture::new();
    let codes: Vec<String> = std::thread::scope(|scope| {
        let asking: Vec<_> = ["1", "2", "3"]
            .map(|user| scope.spawn(|| fixture.code(user)))
            .into_iter()
            .collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for code in codes {
        fixture.store.approve("telegram", &code).unwrap();
    }
    assert_eq!(fixture.store.list_approved().len(), 3);
}

#[test]
fn secrets_are_compared_whole() {
    assert!(is_same_secret("abc", "abc"));
    assert!(!is_same_secret("abc", "abd"));
    assert!(!is_same_secret("abc", "ab"));
    assert!(!is_same_secret("", ""));
}

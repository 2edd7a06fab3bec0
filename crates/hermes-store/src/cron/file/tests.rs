use std::thread;

use serde_json::Map;

use super::*;
use crate::cron::{Claim, Due, Repeat, RunResult, Schedule};

const LEASE: Duration = Duration::from_mins(5);

fn now() -> Zoned {
    "2026-02-01T12:00:00[Europe/Berlin]".parse().unwrap()
}

fn home() -> (tempfile::TempDir, Home) {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    (directory, home)
}

fn new_job(prompt: &str, schedule: &str) -> NewJob {
    NewJob::new(prompt, Schedule::parse(schedule, &now()).unwrap())
}

fn with_job(schedule: &str) -> (CronFile, String) {
    let mut file = CronFile::default();
    let job = file.create(new_job("say hello", schedule), &now()).unwrap();
    (file, job.id().to_owned())
}

fn jobs_file(home: &Home) -> PathBuf {
    cron_dir(home).join(JOBS_FILE)
}

fn write(home: &Home, text: &str) {
    fs::create_dir_all(cron_dir(home)).unwrap();
    fs::write(jobs_file(home), text).unwrap();
}

#[test]
fn a_new_job_has_every_key_and_reads_back() {
    let (_directory, home) = home();
    let job = CronFile::change(&home, &now(), |file| {
        file.create(new_job("say hello", "every 2h"), &now())
    })
    .unwrap();
    assert_eq!(job.id().len(), 12);
    let file = CronFile::load(&home).unwrap();
    assert_eq!(file.jobs, std::slice::from_ref(&job));
    assert_eq!(job.name(), "say hello");
    assert_eq!(job.repeat(), (Repeat::Forever, 0));
    assert_eq!(job.get("deliver"), Some(&json!("local")));
    assert_eq!(
        job.text("next_run_at"),
        Some("2026-02-01T14:00:00.000000+01:00")
    );
    for key in ["last_run_at", "origin", "workdir", "context_from", "script"] {
        assert_eq!(job.get(key), Some(&Value::Null), "{key}");
    }
    assert_eq!(job.get("attach_to_session"), None);
    let text = fs::read_to_string(jobs_file(&home)).unwrap();
    assert!(
        text.starts_with("{\n  \"jobs\": [\n    {\n      \"id\""),
        "{text}"
    );
}

#[test]
#[cfg(unix)]
fn directory_and_file_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (_directory, home) = home();
    CronFile::change(&home, &now(), |file| {
        file.create(new_job("x", "1h"), &now())
    })
    .unwrap();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(cron_dir(&home)), 0o700);
    assert_eq!(mode(jobs_file(&home)), 0o600);
}

#[test]
fn unknown_keys_bare_lists_and_byte_order_marks_are_fine() {
    let (_directory, home) = home();
    write(
        &home,
        "\u{feff}[{\"id\": \"a\", \"later_version\": {\"x\": 1}, \"schedule\": {\"kind\": \"interval\", \"minutes\": 5}}]",
    );
    CronFile::change(&home, &now(), |file| file.pause("a", Some("why"), &now())).unwrap();
    let file = CronFile::load(&home).unwrap();
    let job = file.find("a").unwrap();
    assert_eq!(job.get("later_version"), Some(&json!({"x": 1})));
    assert_eq!(job.state(), JobState::Paused);
    assert_eq!(job.get("paused_reason"), Some(&json!("why")));
    assert_eq!(job.schedule_display(), "?");
}

#[test]
fn a_damaged_file_is_an_error_and_stays() {
    let (_directory, home) = home();
    for text in ["{", "5", "{\"jobs\": 3}", "[3]"] {
        write(&home, text);
        let error = CronFile::change(&home, &now(), |file| {
            file.create(new_job("x", "1h"), &now())
        })
        .unwrap_err();
        assert!(
            matches!(error, CronError::Damaged { .. }),
            "{text}: {error}"
        );
        assert_eq!(fs::read_to_string(jobs_file(&home)).unwrap(), text);
    }
}

#[test]
fn jobs_are_found_by_id_or_only_name() {
    let mut file = CronFile::default();
    for (id, name) in [("job_1", "Twin"), ("job_2", "twin"), ("job_3", "single")] {
        let new = NewJob {
            id: Some(id.into()),
            name: Some(name.into()),
            ..new_job("x", "every 1h")
        };
        file.create(new, &now()).unwrap();
    }
    assert_eq!(file.find("job_2").unwrap().id(), "job_2");
    assert_eq!(file.find("SINGLE").unwrap().id(), "job_3");
    let message = file.find("twin").unwrap_err().to_string();
    assert!(message.contains("job_1, job_2"), "{message}");
    assert!(matches!(file.find("x"), Err(CronError::NoSuchJob { .. })));
    for id in ["job_1", "../x", "", "a/b", ".hidden"] {
        let new = NewJob {
            id: Some(id.into()),
            ..new_job("x", "every 1h")
        };
        assert!(
            matches!(file.create(new, &now()), Err(CronError::BadId { .. })),
            "{id}"
        );
    }
}

#[test]
fn changes_reach_what_may_change() {
    let (mut file, id) = with_job("every 1h");
    let mut others = Map::new();
    others.insert("deliver".into(), json!("telegram"));
    others.insert("skills".into(), json!(["a", "b"]));
    others.insert("id".into(), json!("other"));
    let changes = JobChanges {
        name: Some("new".into()),
        schedule: Some(Schedule::parse("0 9 * * *", &now()).unwrap()),
        repeat: Some(Repeat::Times(3)),
        others,
        ..JobChanges::default()
    };
    let job = file.update(&id, changes, &now()).unwrap();
    assert_eq!(job.id(), id);
    assert_eq!(job.name(), "new");
    assert_eq!(job.get("deliver"), Some(&json!("telegram")));
    assert_eq!(job.get("skill"), Some(&json!("a")));
    assert_eq!(job.repeat(), (Repeat::Times(3), 0));
    assert_eq!(
        job.text("next_run_at"),
        Some("2026-02-02T09:00:00.000000+01:00")
    );
}

#[test]
fn a_resumed_job_counts_from_now() {
    let (mut file, id) = with_job("every 1h");
    file.pause(&id, None, &now()).unwrap();
    let later = now()
        .checked_add(jiff::SignedDuration::from_hours(5))
        .unwrap();
    assert_eq!(file.find(&id).unwrap().due(&later), Due::NotYet);
    let job = file.resume(&id, &later).unwrap();
    assert_eq!(
        job.text("next_run_at"),
        Some("2026-02-01T18:00:00.000000+01:00")
    );
    let job = file.run_now(&id, &later).unwrap();
    assert_eq!(job.due(&later), Due::Now);

    let (mut file, id) = with_job("30m");
    assert!(matches!(
        file.resume(&id, &later),
        Err(CronError::NoNextRun { .. })
    ));
}

#[test]
fn late_runs_happen_or_are_skipped() {
    let (file, id) = with_job("every 60m");
    let job = file.find(&id).unwrap();
    let at = |minutes| {
        now()
            .checked_add(jiff::SignedDuration::from_mins(minutes))
            .unwrap()
    };
    assert_eq!(job.due(&at(59)), Due::NotYet);
    assert_eq!(job.due(&at(60)), Due::Now);
    assert_eq!(job.due(&at(90)), Due::Now);
    assert_eq!(job.due(&at(91)), Due::Missed { next: at(151) });
    let (once, id) = with_job("30m");
    assert_eq!(once.find(&id).unwrap().due(&at(60 * 24)), Due::Now);
}

#[test]
fn a_claim_is_won_once_and_moves_the_job_on() {
    let (mut file, id) = with_job("every 60m");
    let due = now()
        .checked_add(jiff::SignedDuration::from_mins(60))
        .unwrap();
    assert!(matches!(
        file.claim(&id, "one", LEASE, &due).unwrap(),
        Claim::Won(_)
    ));
    assert_eq!(file.claim(&id, "two", LEASE, &due).unwrap(), Claim::Lost);
    assert_eq!(file.find(&id).unwrap().due(&due), Due::NotYet);
    assert!(file.refresh_claim(&id, "one", &due));
    assert!(!file.refresh_claim(&id, "two", &due));

    let result = RunResult {
        error: Some("boom".into()),
        deliveries: Vec::new(),
    };
    file.finish(&id, &result, &due).unwrap();
    let job = file.find(&id).unwrap();
    assert_eq!(job.get("last_status"), Some(&json!("error")));
    assert_eq!(job.get("last_error"), Some(&json!("boom")));
    assert_eq!(job.repeat(), (Repeat::Forever, 1));
    assert!(matches!(
        file.claim(&id, "two", LEASE, &due).unwrap(),
        Claim::Won(_)
    ));
}

#[test]
fn a_claim_whose_owner_died_runs_out_and_one_from_the_future_does_not_count() {
    let (mut file, id) = with_job("every 60m");
    let later = now()
        .checked_add(jiff::SignedDuration::from_mins(6))
        .unwrap();
    file.claim(&id, "dead", LEASE, &later).unwrap();
    assert!(matches!(
        file.claim(&id, "next", LEASE, &now()).unwrap(),
        Claim::Won(_)
    ));
    let much_later = now()
        .checked_add(jiff::SignedDuration::from_mins(12))
        .unwrap();
    assert!(matches!(
        file.claim(&id, "third", LEASE, &much_later).unwrap(),
        Claim::Won(_)
    ));
}

#[test]
fn a_single_run_is_counted_when_claimed_and_never_repeated() {
    let (mut file, id) = with_job("30m");
    let due = now()
        .checked_add(jiff::SignedDuration::from_mins(30))
        .unwrap();
    assert!(matches!(
        file.claim(&id, "one", LEASE, &due).unwrap(),
        Claim::Won(_)
    ));
    let restarted = due
        .checked_add(jiff::SignedDuration::from_mins(30))
        .unwrap();
    assert_eq!(
        file.claim(&id, "two", LEASE, &restarted).unwrap(),
        Claim::Lost
    );
    assert_eq!(file.jobs, []);

    let (mut file, id) = with_job("30m");
    file.claim(&id, "one", LEASE, &due).unwrap();
    file.finish(&id, &RunResult::default(), &due).unwrap();
    assert_eq!(file.jobs, []);
}

#[test]
fn a_single_run_that_was_cut_off_can_be_given_back() {
    let (mut file, id) = with_job("30m");
    let due = now()
        .checked_add(jiff::SignedDuration::from_mins(30))
        .unwrap();
    file.claim(&id, "one", LEASE, &due).unwrap();
    file.release_claims(|owner| owner == "one");
    file.return_lost_run(&id).unwrap();
    let again = file.claim(&id, "two", LEASE, &due).unwrap();
    assert!(matches!(again, Claim::Won(_)), "{again:?}");
    file.finish(&id, &RunResult::default(), &due).unwrap();
    assert_eq!(file.jobs, []);
    assert!(file.return_lost_run(&id).is_err());
    // A job with more runs has lost one of them.
    let (mut file, id) = with_job("every 60m");
    file.claim(&id, "one", LEASE, &due).unwrap();
    let before = file.find(&id).unwrap().clone();
    file.return_lost_run(&id).unwrap();
    assert_eq!(*file.find(&id).unwrap(), before);
}

#[test]
fn a_job_with_a_number_of_runs_goes_away_after_the_last() {
    let (mut file, id) = with_job("every 60m");
    let changes = JobChanges {
        repeat: Some(Repeat::Times(2)),
        ..JobChanges::default()
    };
    file.update(&id, changes, &now()).unwrap();
    file.finish(&id, &RunResult::default(), &now()).unwrap();
    assert_eq!(file.jobs.len(), 1);
    file.finish(&id, &RunResult::default(), &now()).unwrap();
    assert_eq!(file.jobs, []);
}

#[test]
fn changes_of_several_threads_are_all_kept() {
    let (_directory, home) = home();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    CronFile::change(&home, &now(), |file| {
                        file.create(new_job("x", "every 1h"), &now())
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(CronFile::load(&home).unwrap().jobs.len(), 40);
}

#[test]
fn a_script_is_needed_where_no_agent_runs() {
    let new = NewJob {
        no_agent: true,
        ..new_job("x", "1h")
    };
    assert!(matches!(
        CronFile::default().create(new, &now()),
        Err(CronError::NoScript)
    ));
}

#[test]
fn what_a_dead_owner_claimed_is_free_again_but_not_run_again() {
    let now = now();
    let (mut file, often) = with_job("every 1h");
    let once = file.create(new_job("once", "0m"), &now).unwrap();
    for id in [&*often, once.id()] {
        let claim = file.claim(id, "dead", LEASE, &now).unwrap();
        assert!(matches!(claim, Claim::Won(_)), "{id}");
    }
    file.release_claims(|owner| owner == "alive");
    assert_eq!(
        file.claim(&often, "alive", LEASE, &now).unwrap(),
        Claim::Lost
    );
    file.release_claims(|owner| owner == "dead");
    assert_eq!(file.find(&often).unwrap().due(&now), Due::NotYet);
    let again = file.claim(&often, "alive", LEASE, &now).unwrap();
    assert!(matches!(again, Claim::Won(_)));
    assert_eq!(
        file.claim(once.id(), "alive", LEASE, &now).unwrap(),
        Claim::Lost
    );
    assert!(file.find(once.id()).is_err());
}

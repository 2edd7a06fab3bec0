//! What runs have written: `cron/output/<job>/<time>.md`, the last ones of each job.

use std::{fs, path::PathBuf};

use hermes_config::Home;
use jiff::Zoned;

use super::{
    directory::cron_dir,
    file::{CronError, is_id},
};
use crate::file;

/// Maximum number of output files per job.
const MAX_OUTPUTS: usize = 50;

/// Stores the output of a run and deletes the oldest. Returns its path.
pub fn write_output(home: &Home, job: &str, now: &Zoned, text: &str) -> Result<PathBuf, CronError> {
    let directory = output_dir(home, job)?;
    let path = directory.join(format!("{}.md", now.strftime("%Y-%m-%d_%H-%M-%S")));
    file::replace_file(&path, text.as_bytes()).map_err(|source| CronError::Io {
        path: path.clone(),
        source,
    })?;
    let written = list_outputs(home, job)?;
    for old in written.iter().rev().skip(MAX_OUTPUTS) {
        // Another process may have been quicker.
        let _ = fs::remove_file(old);
    }
    Ok(path)
}

/// What the last run of a job has written, if there is any.
pub fn last_output(home: &Home, job: &str) -> Option<String> {
    let written = list_outputs(home, job).ok()?;
    file::read_optional(written.last()?).ok().flatten()
}

/// The files of a job, oldest first: their names are times.
fn list_outputs(home: &Home, job: &str) -> Result<Vec<PathBuf>, CronError> {
    let directory = output_dir(home, job)?;
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    files.sort();
    Ok(files)
}

fn output_dir(home: &Home, job: &str) -> Result<PathBuf, CronError> {
    if is_id(job) {
        Ok(cron_dir(home).join("output").join(job))
    } else {
        Err(CronError::BadId { id: job.into() })
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;

    use super::*;

    #[test]
    fn the_last_outputs_of_a_job_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let start: Zoned = "2026-03-04T05:06:07[UTC]".parse().unwrap();
        assert_eq!(last_output(&home, "job"), None);
        for minute in 0..60 {
            let now = start.checked_add(minute.minutes()).unwrap();
            write_output(&home, "job", &now, &format!("run {minute}")).unwrap();
        }
        let written = list_outputs(&home, "job").unwrap();
        assert_eq!(written.len(), MAX_OUTPUTS);
        assert!(written[0].ends_with("job/2026-03-04_05-16-07.md"));
        assert_eq!(last_output(&home, "job").as_deref(), Some("run 59"));
    }

    #[test]
    fn an_id_that_leads_elsewhere_gets_no_output() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let now: Zoned = "2026-03-04T05:06:07[UTC]".parse().unwrap();
        assert!(write_output(&home, "../x", &now, "").is_err());
        assert_eq!(last_output(&home, "../x"), None);
    }
}

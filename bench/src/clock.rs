//! Clocks that are the same in all processes.

use std::{io, time::Duration};

use anyhow::Result;

/// Time since some moment, the same moment for every process of this machine.
pub(crate) fn now() -> Result<Duration> {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// The processor time that a process has used so far, on all its threads, those that have ended included.
#[expect(
    unsafe_code,
    reason = "`/proc` only counts in hundredths of a second, and no safe interface has another process's clock"
)]
pub(crate) fn processor_time(pid: u32) -> Result<Duration> {
    let mut clock = 0;
    // SAFETY: the pointer is to a live variable of the right type.
    let status = unsafe { libc::clock_getcpuclockid(libc::pid_t::try_from(pid)?, &raw mut clock) };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(status).into());
    }
    read_clock(clock)
}

#[expect(unsafe_code, reason = "no safe interface has another process's clock")]
fn read_clock(clock: libc::clockid_t) -> Result<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live variable of the right type.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    Ok(Duration::new(
        time.tv_sec.try_into()?,
        time.tv_nsec.try_into()?,
    ))
}

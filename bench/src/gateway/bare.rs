//! The least that an answer can take on this machine at this moment: a thread that waits on a socket, writes a line to the
//! disk and answers. What the machine does to it, it does to the gateway, too.

use std::{
    fs::File,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

/// As long as an update, roughly.
const LINE: [u8; 512] = [b'x'; 512];

/// It ends with this process.
pub(super) struct BareServer {
    port: u16,
}

impl BareServer {
    /// Its file is unlinked at once: nothing is left of it.
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let mut file = tempfile_in_temp_dir()?;
        thread::spawn(move || {
            for stream in listener.incoming() {
                let answered = stream.and_then(|stream| answer(stream, &mut file));
                if answered.is_err() {
                    return;
                }
            }
        });
        Ok(Self { port })
    }

    /// How long one answer takes.
    pub(super) fn ask(&self) -> Result<Duration> {
        let began = Instant::now();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(&LINE)?;
        let mut reply = [0];
        stream.read_exact(&mut reply)?;
        Ok(began.elapsed())
    }
}

fn answer(mut stream: TcpStream, file: &mut File) -> std::io::Result<()> {
    let mut line = LINE;
    stream.read_exact(&mut line)?;
    file.write_all(&line)?;
    file.sync_data()?;
    stream.write_all(&[1])
}

fn tempfile_in_temp_dir() -> Result<File> {
    let path = std::env::temp_dir().join(format!("hermes-bench-bare-{}", std::process::id()));
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

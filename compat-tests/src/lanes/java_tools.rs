//! Kafka's command line tools, of 3.9.1 unless another is asked for, run one after the other in one JVM: a start of its own takes each some seconds.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use crate::cache;

/// What a tool said before it ended.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// The running JVM. Killed when dropped.
pub struct JavaTools(RefCell<Jvm>);

struct Jvm {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl JavaTools {
    pub fn start() -> Result<JavaTools> {
        JavaTools::start_of("kafka-3.9.1")
    }

    /// Of another Kafka, by the folder of its POM.
    pub fn start_of(pom: &str) -> Result<JavaTools> {
        let mut command = cache::java(&cache::java_program("Tools.java", pom)?)?;
        command.arg("Tools").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("start java")?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (stdin, stdout) = stdin.zip(stdout).ok_or_else(|| anyhow!("java has no pipes"))?;
        Ok(JavaTools(RefCell::new(Jvm { child, stdin, stdout: BufReader::new(stdout) })))
    }

    /// Runs `main` of a class to its end.
    pub fn run(&self, class: &str, args: &[&str]) -> Result<Said> {
        self.run_on("", class, args)
    }

    /// As [`JavaTools::run`], with `input` on the tool's standard input.
    pub fn run_on(&self, input: &str, class: &str, args: &[&str]) -> Result<Said> {
        let jvm = &mut *self.0.borrow_mut();
        let input = input.replace('\n', "\u{1e}");
        let words = [&[input.as_str(), class], args].concat();
        jvm.stdin.write_all((words.join("\u{1f}") + "\n").as_bytes())?;
        jvm.stdin.flush()?;
        let mut head = String::new();
        jvm.stdout.read_line(&mut head)?;
        let numbers: Vec<i64> = head.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [code, out, err] = numbers[..] else { bail!("java ended: {head}") };
        let mut text = |length: i64| -> Result<String> {
            let mut bytes = vec![0; usize::try_from(length)?];
            jvm.stdout.read_exact(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Said { out: text(out)?, err: text(err)?, code: i32::try_from(code)? })
    }
}

impl Drop for JavaTools {
    fn drop(&mut self) {
        let jvm = self.0.get_mut();
        let _ = jvm.child.kill();
        let _ = jvm.child.wait();
    }
}

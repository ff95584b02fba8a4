#include "agent/tasks/preflight.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fstream>

#include "agent/census/process_table.h"
#include "agent/control/control_listener.h"
#include "agent/control/tcp_address.h"
#include "agent/files/disk_room.h"
#include "agent/slot/kept_folder.h"
#include "agent/tasks/exec_trial.h"
#include "agent/tasks/port_check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using protocol::HostDescription;
using protocol::TaskDescription;
using testing::HasSubstr;
using testing::MatchesRegex;

class PreflightTest : public testing::Test {
 protected:
  void SetUp() override {
    info_.job = "job";
    info_.name = "name";
  }

  static HostDescription WithTask(const TaskDescription& task) {
    HostDescription description;
    description.tasks = {task};
    return description;
  }
  static TaskDescription Task(const std::string& command) {
    TaskDescription task;
    task.task = "worker:0";
    task.argv = {protocol::Text(command)};
    return task;
  }
  static TaskDescription TaskOf(const std::vector<const char*>& words) {
    TaskDescription task = Task(words[0]);
    for (size_t at = 1; at < words.size(); ++at) task.argv.emplace_back(std::string(words[at]));
    return task;
  }
  void TryPrepare(const HostDescription& description) {
    Prepare(description, FileStore(path_ / "files"), SlotFolder(path_), info_);
  }
  std::string Complaint(const HostDescription& description, Phase phase) {
    try {
      TryPrepare(description);
      ADD_FAILURE() << "no complaint";
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.phase(), phase);
      EXPECT_FALSE(e.remedy().empty());
      return e.cause();
    }
  }

  const TemporaryFolder temporary_;
  std::filesystem::path path_ = temporary_.path();
  SlotInfo info_;
};

TEST_F(PreflightTest, FindsACommandInThePathOfTheTasksOwnEnvironment) {
  TryPrepare(WithTask(Task("sh")));
  TaskDescription task = Task("sh");
  task.env = {{"PATH", "/nowhere:/neither"}};
  EXPECT_EQ(Complaint(WithTask(task), Phase::kCommand),
            "command 'sh' of worker:0: not found in PATH=/nowhere:/neither");
}

TEST_F(PreflightTest, LooksForTheProgramThatAnotherOneRuns) {
  const std::vector<std::vector<const char*>> commands = {
      {"env", "A=1", "pyhton3", "train.py"},
      {"nohup", "pyhton3"},
      {"timeout", "5", "pyhton3"},
      {"nice", "stdbuf", "-oL", "pyhton3"},
      {"setsid", "pyhton3"},
      {"sh", "-c", "A=$B exec pyhton3 \"$C\" >log 2>&1"}};
  for (const auto& command : commands) {
    EXPECT_THAT(Complaint(WithTask(TaskOf(command)), Phase::kCommand),
                HasSubstr("command 'pyhton3' of worker:0: not found in PATH="));
  }
  EXPECT_THAT(Complaint(WithTask(TaskOf({"env", "PATH=/nowhere", "sh"})), Phase::kCommand),
              HasSubstr("'sh' of worker:0: not found in PATH=/nowhere"));
  TryPrepare(WithTask(TaskOf({"sh", "-c", "pyhton3 || true"})));
  TryPrepare(WithTask(TaskOf({"nice", "sh", "-c", "test -e /"})));
  TaskDescription with_functions = TaskOf({"bash", "-c", "pyhton3"});
  with_functions.env = {{"BASH_FUNC_pyhton3%%", "() { true; }"}};
  TryPrepare(WithTask(with_functions));
}

TEST_F(PreflightTest, AsksPythonForTheModuleThatItIsToRun) {
  for (const TaskDescription& task :
       {TaskOf({"python3", "-m", "trian"}), TaskOf({"nohup", "python3", "-um", "trian.sub"}),
        TaskOf({"sh", "-c", "python3 -m trian --lr $LR"})}) {
    EXPECT_EQ(Complaint(WithTask(task), Phase::kCommand),
              "command of worker:0: python3 has no module trian");
  }
  TryPrepare(WithTask(TaskOf({"python3", "-m", "http.server"})));
  TaskDescription with_path = TaskOf({"python3", "-m", "mine"});
  with_path.env = {{"PYTHONPATH", path_.string()}};
  std::ofstream(path_ / "mine.py") << "raise SystemExit('only looked for')\n";
  TryPrepare(WithTask(with_path));
}

TEST_F(PreflightTest, AsksAShellThatReadsFilesOfTheUsersForItsProgram) {
  std::ofstream(path_ / ".profile") << "PATH=$PATH:$HOME/mine; there() { true; }\n";
  std::filesystem::create_directory(path_ / "mine");
  std::ofstream(path_ / "mine/train") << "";
  std::filesystem::permissions(path_ / "mine/train", std::filesystem::perms::owner_all);
  const auto task = [&](const char* command) {
    TaskDescription one = TaskOf({"bash", "-lc", command});
    one.env = {{"HOME", path_.string()}};
    return one;
  };
  EXPECT_EQ(Complaint(WithTask(task("exec pyhton3 train.py")), Phase::kCommand),
            "command of worker:0: bash -lc does not find pyhton3");
  for (const char* const command :
       {"train", "there", "python3 x.py", "pyhton3 || true", "A=b pyhton3"})
    TryPrepare(WithTask(task(command)));
}

TEST_F(PreflightTest, AsksPythonForTheSyntaxOfItsScriptWhereAJobWouldBeEndedForIt) {
  const std::string script = path_ / "train.py";
  HostDescription description = WithTask(TaskOf({"python3", "-u", script.c_str()}));
  std::ofstream(path_ / "train.py") << "x = 1\nif x\n  print(x)\n";
  TryPrepare(description);
  description.replaces = "job-1";
  EXPECT_THAT(Complaint(description, Phase::kCommand), HasSubstr("train.py, line 2: "));
  const std::string archive = path_ / "train.pyz";
  std::ofstream(archive) << "PK\x03\x04 no text";
  HostDescription packed = WithTask(TaskOf({"python3", archive.c_str()}));
  packed.replaces = "job-1";
  TryPrepare(packed);
  std::ofstream(path_ / "train.py") << "# coding: latin-1\nx = '\xe9'\nraise SystemExit(1)\n";
  TryPrepare(description);
}

class ScriptTest : public PreflightTest {
 protected:
  static HostDescription InPlaceOfAJob(const TaskDescription& task) {
    HostDescription description = WithTask(task);
    description.replaces = "job-1";
    return description;
  }
  std::string WhyNot(const std::vector<const char*>& words) {
    return Complaint(InPlaceOfAJob(TaskOf(words)), Phase::kCommand);
  }
  void Runs(const std::vector<const char*>& words) { TryPrepare(InPlaceOfAJob(TaskOf(words))); }
  std::string File(const std::string& name, const std::string& content) {
    std::ofstream(path_ / name) << content;
    return path_ / name;
  }
};

TEST_F(ScriptTest, ThatIsNotThereIsNamed) {
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {"python3", "/no/train.py"},
           {"python3", "-u", "/no/train.py"},
           {"env", "A=1", "nice", "python3", "/no/train.py"},
           {"timeout", "5", "python3", "-W", "ignore", "/no/train.py", "--lr", "1"},
           {"sh", "-c", "exec python3 /no/train.py \"$LR\" >log"},
           {"bash", "-lc", "python3 /no/train.py"}}) {
    EXPECT_EQ(WhyNot(words),
              "command of worker:0: python3 cannot open /no/train.py: No such file or directory");
    EXPECT_EQ(Complaint(WithTask(TaskOf(words)), Phase::kCommand), WhyNot(words));
  }
  EXPECT_EQ(WhyNot({"bash", "-eu", "/no/run.sh"}),
            "command of worker:0: bash cannot open /no/run.sh: No such file or directory");
  EXPECT_EQ(WhyNot({"sh", "run.sh"}),
            "command of worker:0: sh cannot open run.sh: No such file or directory");
  TryPrepare(WithTask(TaskOf({"sh", "run.sh"})));  // another task may make it
  std::filesystem::create_symlink("/no/train.py", path_ / "link.py");
  EXPECT_THAT(WhyNot({"python3", (path_ / "link.py").c_str()}),
              HasSubstr("/link.py: No such file"));
  std::filesystem::create_directory(path_ / "folder");
  EXPECT_THAT(WhyNot({"python3", (path_ / "folder").c_str()}),
              HasSubstr("/folder: a folder without __main__.py"));
  EXPECT_THAT(WhyNot({"bash", (path_ / "folder").c_str()}), HasSubstr("/folder: Is a directory"));
}

TEST_F(ScriptTest, ThatTheInterpreterFindsIsNotNamed) {
  const std::string here = File("train.py", "pass\n");
  std::filesystem::create_directory(path_ / "package");
  const std::string main = File("package/__main__.py", "pass\n");
  const std::string package = path_ / "package";
  const std::string wrapper = File("python3", "#!/bin/sh\nexec true\n");  // enters an image, say
  std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {"python3", here.c_str()},
           {"python3", package.c_str()},
           {"python3", "-c", "pass", "/no/train.py"},
           {"python3", "-m", "this", "/no/train.py"},
           {"python3", "-"},
           {"python3", "/dev/stdin"},
           {"bash", "/dev/fd/63"},
           {"bash", "-s", "/no/run.sh"},
           {"bash", "-c", "python3 <(echo pass)"},
           {"bash", "-c", "test -e /no/x || make; python3 /no/train.py"},
           {"bash", "-c", "python3 $SCRIPT"},
           {"bash", "ldd"},  // by PATH
           {wrapper.c_str(), "/no/train.py"}}) {
    Runs(words);
  }
  TaskDescription of_attempt = TaskOf({"python3"});
  of_attempt.argv.emplace_back();
  of_attempt.argv.back().parts = {"/no/", protocol::SlotAddress{0}, "/train.py"};
  TryPrepare(InPlaceOfAJob(of_attempt));
}

TEST_F(ScriptTest, OfAKeptFolderIsLookedForInThatOfTheJobToCome) {
  info_.base = path_ / "base";
  info_.name = "name.next";
  TaskDescription task = TaskOf({"python3"});
  task.argv.emplace_back(std::string(protocol::kKeepPath) + "/train.py");
  HostDescription description = InPlaceOfAJob(task);
  description.kept = protocol::KeptClaim{.name = "name", .home = "home", .who = "", .take = false};
  EXPECT_THAT(Complaint(description, Phase::kCommand), HasSubstr("/train.py: No such file"));
  TryPrepare(WithTask(task));  // another task may make it
  std::filesystem::create_directories(path_ / "base/keep/name");
  File("base/keep/name/train.py", "pass\n");
  TryPrepare(description);
}

TEST_F(ScriptTest, ThatAShellCannotParseIsNamed) {
  const std::string bad = File("bad.sh", "echo begins\nif true; then\n  echo x\n");
  for (const char* const shell : {"bash", "sh"})
    EXPECT_THAT(WhyNot({shell, "-e", bad.c_str()}), HasSubstr("yntax error"));
  TryPrepare(WithTask(TaskOf({"bash", bad.c_str()})));
  for (const char* const text : {"exit 0\n\x7f) (if\n", "shopt -s extglob\nls !(a|b)\n",
                                 "alias begin='if'\nfi\n", "echo good\nexec true\n"}) {
    Runs({"bash", File("good.sh", text).c_str()});
  }
}

TEST_F(ScriptTest, WithAnOptionThatPythonHasNotIsNamed) {
  const std::string script = File("train.py", "pass\n");
  EXPECT_EQ(WhyNot({"python3", "-Z", script.c_str()}),
            "command of worker:0: python3 has no option -Z");
  Runs({"python3", "-i", script.c_str()});
  Runs({"python3", "--check-hash-based-pycs", "always", script.c_str()});
  Runs({"python3", "--version"});
}

TEST_F(PreflightTest, LooksForAPathWithSlashInTheWorkFolder) {
  EXPECT_THAT(Complaint(WithTask(Task("./train.sh")), Phase::kCommand),
              HasSubstr("./train.sh: No such file or directory"));
  EXPECT_THAT(Complaint(WithTask(Task("/tmp/")), Phase::kCommand), HasSubstr("not a file"));
  EXPECT_THAT(Complaint(WithTask(Task("/etc/passwd")), Phase::kCommand),
              HasSubstr("not executable"));
}

// What execve(2) refuses, and what it, or a shell in its place, does not.
class ProgramFileTest : public PreflightTest {
 protected:
  std::string File(const std::string& name, const std::string& content) {
    ReplaceFile(path_ / name, content, 0700);
    return path_ / name;
  }
  std::string WhyOf(const std::vector<const char*>& words) {
    return Complaint(WithTask(TaskOf(words)), Phase::kCommand);
  }

  const std::string program_ = *ReadFileIfExists("/usr/bin/env", 10 << 20);
};

TEST_F(ProgramFileTest, OfAnotherMachineIsNamed) {
  std::string changed = program_;
  changed[offsetof(Elf64_Ehdr, e_machine)] = static_cast<char>(EM_S390);
  const std::string file = File("train", changed);
  const std::string why = file + ": a program for s390x, which this host does not execute";
  EXPECT_EQ(WhyOf({file.c_str()}), "command '" + file + "' of worker:0: " + why);
  EXPECT_THAT(WhyOf({"env", "A=1", file.c_str()}), HasSubstr(why));
  EXPECT_THAT(WhyOf({"sh", "-c", file.c_str()}), HasSubstr(why));
}

TEST_F(ProgramFileTest, WithoutItsLoaderIsNamed) {
  std::string changed = program_;
  changed.replace(changed.find("/ld-linux"), 9, "/no-linux");
  const std::string file = File("train", changed);
  EXPECT_THAT(WhyOf({file.c_str()}), MatchesRegex(".*/train: it asks for the loader "
                                                  "/[a-z0-9]+/no-linux.*, which is not there"));
}

TEST_F(ProgramFileTest, ThatIsCutOffIsNamed) {
  const std::string file = File("train", program_.substr(0, 100));
  EXPECT_THAT(WhyOf({file.c_str()}), HasSubstr("/train: a broken program: "));
}

TEST_F(ProgramFileTest, WithoutAFirstLineThatNamesAnInterpreterIsOnlyForAShell) {
  const std::string text = File("train", "echo trains\n");
  const std::string empty = File("empty", "");
  EXPECT_THAT(WhyOf({text.c_str()}), HasSubstr("/train: neither a program for Linux nor a script"));
  EXPECT_THAT(WhyOf({empty.c_str()}), HasSubstr("/empty: an empty file"));
  for (const std::string& file : {text, empty}) {
    TryPrepare(WithTask(TaskOf({"sh", "-c", file.c_str()})));
    TryPrepare(WithTask(TaskOf({"env", file.c_str()})));  // execvp(3)
  }
}

TEST_F(ProgramFileTest, WhoseFirstLineLetsEnvLookForAnInterpreter) {
  for (const char* const line : {"#!/usr/bin/env pyhton3\n", "#! /usr/bin/env -S pyhton3 -u\n"}) {
    EXPECT_THAT(WhyOf({File("train", line).c_str()}),
                HasSubstr("/train: its first line names pyhton3, which is not there: not found in "
                          "PATH="));
  }
  for (const char* const line :
       {"#!/usr/bin/env python3\n", "#!/usr/bin/env -S python3 -u\n",
        "#!/usr/bin/env -S \"pyhton3\" -u\n", "#!/bin/sh -e\n", "#!/usr/bin/env -S A=1 python3 \n"})
    TryPrepare(WithTask(Task(File("train", line))));
}

TEST_F(ProgramFileTest, ThatTheKernelExecutesRunsNoInstruction) {
  const std::string touched = path_ / "touched";
  const std::string script = File("train", "#!/usr/bin/touch " + touched + "\n");
  EXPECT_EQ(WhyKernelRefuses(script, path_), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(touched));
  EXPECT_EQ(WhyKernelRefuses(path_ / "nothing", path_), ENOENT);
  EXPECT_EQ(WhyKernelRefuses("/usr/bin/env", path_ / "nothing"), std::nullopt);
}

TEST_F(PreflightTest, MakesTheKeptFolderWhereATaskNamesIt) {
  info_.base = path_ / "base";
  const std::filesystem::path kept = KeptFolder(info_);
  TryPrepare(WithTask(Task("sh")));
  EXPECT_FALSE(std::filesystem::exists(kept));
  TaskDescription task = Task("sh");
  task.cwd = std::string(protocol::kKeepPath);
  TryPrepare(WithTask(task));
  EXPECT_TRUE(std::filesystem::is_directory(kept));
  EXPECT_EQ(LookAtKept(kept, SystemClock().Now() + std::chrono::minutes(1)), protocol::KeptFiles());
}

// It would be written to with this account's rights.
TEST_F(PreflightTest, AKeptFolderThatIsALinkIsRefused) {
  info_.base = path_ / "base";
  MakePrivateFolder(KeptFolder(info_).parent_path());
  std::filesystem::create_directory_symlink("/tmp", KeptFolder(info_));
  TaskDescription task = Task("sh");
  task.env = {{"CKPT", std::string(protocol::kKeepPath)}};
  EXPECT_THROW(TryPrepare(WithTask(task)), Error);
}

TEST_F(PreflightTest, NamesThePortAndWhoHasIt) {
  const UniqueFd taken = ListenForAgents("127.0.0.1", 0);
  TaskDescription task = Task("sh");
  task.ports = {LocalPort(taken.get())};
  EXPECT_EQ(Complaint(WithTask(task), Phase::kPorts),
            "port " + std::to_string(task.ports[0]) + " of worker:0 is in use by pid " +
                std::to_string(getpid()) + " (" + ReadProcess(getpid())->comm + ")");
}

TEST_F(PreflightTest, LeavesAFreePortFree) {
  UniqueFd listener = ListenForAgents("127.0.0.1", 0);
  const int port = LocalPort(listener.get());
  listener.Reset();
  CheckPort(port, "worker:0");
  EXPECT_TRUE(ListenForAgents("127.0.0.1", port).valid());
}

TEST_F(PreflightTest, TellsWhatTarSaysOfABrokenArchive) {
  HostDescription description = WithTask(Task("sh"));
  description.workdir.emplace_back();
  description.workdir[0].sha256 = std::string(64, 'a');
  MakePrivateFolder(path_ / "files");
  ReplaceFile(path_ / "files" / std::string(64, 'a'), "no archive", 0400);
  try {
    TryPrepare(description);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.phase(), Phase::kFiles);
    EXPECT_THAT(e.cause(), HasSubstr("not in gzip format"));
  }
}

class WorkFilesTest : public PreflightTest {
 protected:
  // A description with one large file, which is in the store, at `link`.
  HostDescription WithFile(const std::string& link) {
    const std::string content = "weights";
    HostDescription description = WithTask(Task("sh"));
    description.files = {{Sha256Hex(content), content.size(), true, link}};
    MakePrivateFolder(path_ / "files");
    ReplaceFile(path_ / "files" / description.files[0].sha256, content, 0400);
    return description;
  }
  // An archive of the folder `from`, as the work folder's.
  void AddArchive(HostDescription& description, const std::filesystem::path& from) {
    description.workdir.emplace_back();
    description.workdir[0].sha256 = std::string(64, 'a');
    const std::string command = "tar -czf " + (path_ / "files" / std::string(64, 'a')).string() +
                                " -C " + from.string() + " .";
    ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT: one thread
  }
};

TEST_F(WorkFilesTest, ALargeFileIsCopiedIntoItsFolder) {
  std::filesystem::create_directories(path_ / "from/data");
  HostDescription description = WithFile("work/data/weights");
  AddArchive(description, path_ / "from");
  TryPrepare(description);
  const auto placed = path_ / "work/data/weights";
  EXPECT_EQ(ReadFileIfExists(placed, 100), "weights");
  struct stat info {};
  ASSERT_EQ(stat(placed.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);  // until the list of times and modes is read
  EXPECT_EQ(info.st_nlink, 1U);           // what a task writes there does not reach the store
  TryPrepare(description);                // again
}

TEST_F(WorkFilesTest, AReadOnlyFolderTakesItsLargeFileAndStaysReadOnly) {
  const auto from = path_ / "from/data";
  std::filesystem::create_directories(from);
  ASSERT_EQ(chmod(from.c_str(), 0555), 0);
  HostDescription description = WithFile("work/data/weights");
  AddArchive(description, path_ / "from");
  TryPrepare(description);
  EXPECT_EQ(ReadFileIfExists(path_ / "work/data/weights", 100), "weights");
  struct stat info {};
  ASSERT_EQ(stat((path_ / "work/data").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0555U);
  ASSERT_EQ(chmod((path_ / "work/data").c_str(), 0755), 0);
  ASSERT_EQ(chmod(from.c_str(), 0755), 0);
}

TEST_F(WorkFilesTest, ALargeFileGoesThroughNoLinkAndOverNothing) {
  std::filesystem::create_directories(path_ / "from");
  std::filesystem::create_directory_symlink(path_ / "outside", path_ / "from/out");
  std::filesystem::create_directories(path_ / "outside");
  std::ofstream(path_ / "from/there") << "x";
  for (const char* link : {"work/out/weights", "work/there", "work/missing/weights"}) {
    HostDescription description = WithFile(link);
    AddArchive(description, path_ / "from");
    EXPECT_THROW(TryPrepare(description), Error) << link;
  }
  EXPECT_TRUE(std::filesystem::is_empty(path_ / "outside"));
}

TEST_F(WorkFilesTest, WhatArrivesHasItsTimesAndModesFromHome) {
  std::filesystem::create_directories(path_ / "from/data");
  std::ofstream(path_ / "from/small") << "x";
  std::filesystem::create_symlink("small", path_ / "from/link");
  HostDescription description = WithFile("work/data/weights");
  AddArchive(description, path_ / "from");
  std::string times;
  for (const char* entry :
       {"1500000001 7 448 .", "1500000002 0 493 data", "1500000003 999999999 361 data/weights",
        "-5 1 436 small", "1500000004 2 511 link"}) {
    times += std::string(entry) + '\0';
  }
  description.files.push_back(
      {Sha256Hex(times), times.size(), false, std::string(protocol::kWorkTimes)});
  ReplaceFile(path_ / "files" / description.files[1].sha256, times, 0400);
  for (int round = 0; round < 2; ++round) {
    TryPrepare(description);
    const auto expect = [&](const char* path, int64_t seconds, int64_t nanoseconds) {
      struct stat info {};
      ASSERT_EQ(lstat((path_ / "work" / path).c_str(), &info), 0);
      EXPECT_EQ(info.st_mtim.tv_sec, seconds) << path;
      EXPECT_EQ(info.st_mtim.tv_nsec, nanoseconds) << path;
    };
    expect(".", 1500000001, 7);
    expect("data", 1500000002, 0);
    expect("data/weights", 1500000003, 999999999);
    expect("small", -5, 1);
    expect("link", 1500000004, 2);
    const auto mode_of = [&](const char* path) {
      return std::filesystem::status(path_ / "work" / path).permissions();
    };
    EXPECT_EQ(mode_of("data/weights"), std::filesystem::perms(0551));
    EXPECT_EQ(mode_of("small"), std::filesystem::perms(0664));
    EXPECT_FALSE(std::filesystem::exists(path_ / protocol::kWorkTimes));
  }
}

TEST_F(WorkFilesTest, TimesReachNothingOutsideTheWorkFolder) {
  for (const std::string entry : {"1 1 0 ../x", "1 1 0 /etc", "1 1 0 ", "1 1 x", "1 x", "1"}) {
    HostDescription description = WithTask(Task("sh"));
    const std::string times = entry + '\0';
    description.files = {
        {Sha256Hex(times), times.size(), false, std::string(protocol::kWorkTimes)}};
    MakePrivateFolder(path_ / "files");
    ReplaceFile(path_ / "files" / description.files[0].sha256, times, 0400);
    EXPECT_THROW(TryPrepare(description), Error) << entry;
  }
}

TEST(CheckRoom, SaysBothSizes) {
  CheckRoom("/tmp", 0);
  try {
    CheckRoom("/tmp", uint64_t{1} << 60);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.cause(), HasSubstr("the job's files need 1099511627776 MiB at /tmp, where "));
    EXPECT_FALSE(e.remedy().empty());
  }
}

TEST(CheckDescription, RefusesNamesThatLeaveTheFolder) {
  for (const char* name : {"worker", "../x:0", "a/b:0", ".a:0", "worker:0/1", ":0"}) {
    HostDescription description;
    TaskDescription task;
    task.task = name;
    description.tasks = {task};
    EXPECT_THROW(CheckDescription(description), Error) << name;
  }
  for (const char* link : {"", "../x", "key", "agent", "a/b", "work", "work/", "work/../x",
                           "work//x", "work/a/./b", "work/a/", "work/.."}) {
    HostDescription description;
    description.files = {{.sha256 = {}, .size_bytes = 0, .executable = false, .link = link}};
    EXPECT_THROW(CheckDescription(description), Error) << link;
  }
}

}  // namespace
}  // namespace tfdist::agent

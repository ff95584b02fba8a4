// Mistakes in cluster files: all of them in one run, each with its place.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <fstream>
#include <sstream>

#include "base/testing/test_paths.h"
#include "cli/cluster_file/host_range.h"
#include "cli/cluster_file/key_depth.h"
#include "cli/cluster_file/nearest.h"
#include "cli/cluster_file/quantity.h"
#include "cli/plan/testing/test_files.h"

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Mistakes : public PlanTest {};

std::string ReadAll(const std::filesystem::path& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

// The folder's name depends on where the sources lie.
std::string WithoutFolder(std::string text, const std::string& folder) {
  for (size_t at = text.find(folder); at != text.npos; at = text.find(folder, at)) {
    text.erase(at, folder.size());
  }
  return text;
}

// To write the golden texts anew: TFDIST_UPDATE_GOLDEN=1 plan_test.
void CheckGolden(const std::string& name) {
  const std::filesystem::path folder = TestSourceDir() / "cli/plan/testdata";
  std::string report;
  try {
    LoadPlan(folder / (name + ".toml"));
  } catch (const PlanErrors& errors) {
    report = WithoutFolder(errors.Report(), folder.string() + "/");
  }
  const std::filesystem::path golden = folder / (name + ".txt");
  if (std::getenv("TFDIST_UPDATE_GOLDEN") != nullptr) std::ofstream(golden) << report;
  EXPECT_EQ(report, ReadAll(golden));
}

TEST_F(Mistakes, TenOfOneFileAreNamedInOneRun) { CheckGolden("ten_mistakes"); }

TEST_F(Mistakes, OfTheWholePlanAreNamedInOneRun) { CheckGolden("plan_mistakes"); }

TEST_F(Mistakes, TenMistakesAreTenProblems) {
  EXPECT_EQ(Problems(ReadAll(TestSourceDir() / "cli/plan/testdata/ten_mistakes.toml")).size(), 10U);
}

TEST_F(Mistakes, AFileThatIsNotThereIsNamed) {
  try {
    LoadPlan(folder() / "absent.toml");
    FAIL();
  } catch (const PlanErrors& errors) {
    const std::string file = (folder() / "absent.toml").string();
    EXPECT_EQ(errors.Report(),
              file + ": there is no such file\n  tfdist init HOST... -o " + file + " writes one\n");
    EXPECT_EQ(errors.phase(), Phase::kConfig);
  }
}

TEST_F(Mistakes, AFolderIsNoClusterFile) { EXPECT_THROW(LoadPlan(folder()), PlanErrors); }

TEST_F(Mistakes, AFileOfMoreThanAMebibyteIsRefused) {
  EXPECT_THAT(Messages(std::string((1 << 20) + 1, '#')),
              ElementsAre(HasSubstr("longer than 1048576 bytes")));
}

TEST_F(Mistakes, TheFirstSyntaxErrorIsNamedAlone) {
  const auto problems = Problems("name = \"a\"\nname = \"b\"\nx = [");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].line, 2);
  EXPECT_THAT(problems[0].message, HasSubstr("not TOML"));
  EXPECT_THAT(Messages("a = 99999999999999999999"), ElementsAre(HasSubstr("not TOML")));
  EXPECT_THAT(Messages("name = \"\xff\""), ElementsAre(HasSubstr("not TOML")));
}

TEST_F(Mistakes, AnEmptyFileLacksEverything) {
  EXPECT_THAT(Messages(""),
              ElementsAre("name: a job needs a name", "cluster: the job has no task"));
}

TEST_F(Mistakes, AMisspelledKeyIsReportedOnce) {
  EXPECT_THAT(
      Messages("nmae = \"n\"\n[cluster]\nhost = [\"h1\"]\n[task]\ncomand = [\"a\"]"),
      ElementsAre("nmae: unknown key", "cluster.host: unknown key", "task.comand: unknown key"));
}

TEST_F(Mistakes, PackagesOfACheckAreNames) {
  const auto check = [](const std::string& value) {
    return "name = \"n\"\n[cluster]\nhosts = [\"h1\"]\n[task]\ncommand = [\"a\"]\n[check]\n" +
           value;
  };
  EXPECT_THAT(Messages(check("python = [\"tensorflow\", \"ruamel.yaml\"]")), IsEmpty());
  EXPECT_THAT(Messages(check("python = \"tensorflow\"")),
              ElementsAre(HasSubstr("check.python: expected a list of Python packages")));
  EXPECT_THAT(Messages(check("python = [\"-c\", \"\"]")),
              ElementsAre("check.python[0]: '-c' is no name of a Python package",
                          HasSubstr("check.python[1]: ")));
  EXPECT_THAT(Messages(check("pyton = []")), ElementsAre("check.pyton: unknown key"));
}

TEST_F(Mistakes, AKeyInTheWrongTableIsToldItsHome) {
  const auto hint = [&](const std::string& text) { return Problems(text).at(0).hint; };
  EXPECT_EQ(hint("name = \"n\"\n[cluster]\nhosts = [\"h1\"]\n[task]\ncommand = [\"a\"]\n[restart]\n"
                 "host_lots = \"never\""),
            "did you mean 'host_lost'?");
  EXPECT_EQ(
      hint(
          "name = \"n\"\n[cluster]\nhosts = [\"h1\"]\ndone = \"chief\"\n[task]\ncommand = [\"a\"]"),
      "'done' belongs at the top of the file, before the first [table]");
  EXPECT_EQ(
      hint("name = \"n\"\nworkdir = \".\"\n[cluster]\nhosts = [\"h1\"]\n[task]\ncommand = [\"a\"]"),
      "'workdir' belongs in [task]");
}

TEST_F(Mistakes, ANumberInThePlaceOfATableOrAWordIsToldTheKeys) {
  const auto first = [&](const std::string& text) {
    return Problems("name = \"n\"\n" + text +
                    "\n[cluster]\nhosts = [\"h1\"]\n[task]\ncommand = [\"a\"]\n")
        .at(0);
  };
  const std::string example =
      "[restart] has a rule for each task type: worker = { limit = 1 }; and on_host_lost, "
      "host_lost, orphan_timeout, exclusive";
  EXPECT_EQ(first("restart.max = 1").hint, example);
  EXPECT_EQ(first("restart.limit = 1").hint, example);
  EXPECT_EQ(first("restart = 1").hint, example);
  EXPECT_EQ(first("control = 7000").hint, "the keys of [control]: port");
  EXPECT_EQ(
      first("ssh = 22").hint,
      "the keys of [ssh]: user, port, identity_file, config, host_keys, transport, remote_dir");
  EXPECT_EQ(first("roles = 2").hint, "a table for each task type: [roles.worker] with count = 2");
  EXPECT_THAT(first("roles.worker = 2").hint,
              HasSubstr("[roles.worker] with count = 2; its keys: hosts, count"));
  EXPECT_EQ(first("data = 1").hint, "a name for each: [data] with train = \"./data\"");
  EXPECT_THAT(first("on_deadline = 1").message, HasSubstr("expected \""));
  // The example works.
  EXPECT_THAT(
      Messages("name = \"n\"\n[cluster]\nhosts = [\"h1\"]\nlayout = \"mirrored\"\n[task]\ncommand "
               "= [\"a\"]\n[restart]\nworker = { limit = 1 }"),
      IsEmpty());
}

TEST_F(Mistakes, AWordOfAnotherToolIsToldItsOwn) {
  const auto hint = [&](const std::string& roles) {
    return Problems(
               "name = \"n\"\n[cluster]\nhosts = [\"h1\"]\nlayout = \"roles\"\n[task]\n"
               "command = [\"a\"]\n" +
               roles)
        .at(0)
        .hint;
  };
  EXPECT_EQ(hint("environment = {}\n[roles.worker]\ncount = 1"), "did you mean 'env'?");
  EXPECT_EQ(hint("[roles.worker]\ncount = 1\nentrypoints = \"x\""), "did you mean 'entrypoint'?");
  EXPECT_EQ(hint("[roles.worker]\ncount = 1\nrestartPolicy = \"x\""),
            "'restart' is a table of its own: [restart]");
  EXPECT_EQ(hint("nodes = 3\n[roles.worker]\ncount = 1"), "'hosts' belongs in [cluster]");
  EXPECT_EQ(hint("[roles.worker]\ncount = 1\n[restart]\nlimit = { limit = 1 }"),
            "'limit' belongs in [restart] NAME");
}

TEST_F(Mistakes, InHostsAreExplained) {
  const auto message = [&](const std::string& host) {
    const auto messages = ClusterMessages("hosts = [" + host + "]");
    return messages.size() == 1 ? messages.front() : testing::PrintToString(messages);
  };
  EXPECT_THAT(message("\"10.0.0.256\""), HasSubstr("'10.0.0.256' is neither"));
  EXPECT_THAT(message("\"gpu7:0\""), HasSubstr("'0' is not SSH's port from 1 to 65535"));
  EXPECT_THAT(message("\"gpu7:\""), HasSubstr("'' is not SSH's port"));
  EXPECT_THAT(message("\"[fd00::1]:x\""), HasSubstr("'x' is not SSH's port"));
  EXPECT_THAT(message("\"@gpu7\""), HasSubstr("'' is no user name"));
  EXPECT_THAT(message("\"-l@gpu7\""), HasSubstr("'-l' is no user name"));
  EXPECT_THAT(message("\"@b@gpu7\""), HasSubstr("'@b' is no user name"));
  EXPECT_THAT(message("\"$(id)@gpu7\""), HasSubstr("'$(id)' is no user name"));
  for (const char* bad : {"a;b", "a$b", "a|b", "a'b", "a*", "-a", "a b", "a:b:c", "%eth0::1"}) {
    EXPECT_THAT(message(fmt::format("\"{}\"", bad)), HasSubstr("neither")) << bad;
    EXPECT_THAT(message(fmt::format("{{ address = \"h1\", ssh = \"{}\" }}", bad)),
                HasSubstr("no host for ssh"))
        << bad;
  }
  EXPECT_THAT(message("\"10.1\", \"10.0.0.1\""), HasSubstr("10.0.0.1 is listed twice"));
  EXPECT_THAT(message("\"ssh://h1:x\""), HasSubstr("'x' is not SSH's port"));
  EXPECT_THAT(message("\"0.0.0.0\""), HasSubstr("every address"));
  EXPECT_THAT(message("\"0\""), HasSubstr("every address"));
  EXPECT_THAT(message("\"-oProxyCommand=x\""), HasSubstr("neither"));
  EXPECT_THAT(message("\"a b\""), HasSubstr("neither"));
  EXPECT_THAT(message("\"\""), HasSubstr("empty"));
  EXPECT_THAT(message("\"a\\u001b[31m\""), HasSubstr("'a\\x1b[31m' holds a control character"));
  EXPECT_THAT(message("\"gpu[4-1]\""), HasSubstr("'[4-1]' is no range"));
  EXPECT_THAT(message("\"gpu[1-]\""), HasSubstr("is no range"));
  EXPECT_THAT(message("\"gpu[1-4\""), HasSubstr("neither"));
  EXPECT_THAT(message("\"gpu[1-999999999]\""), HasSubstr("more than 4096 hosts"));
  EXPECT_THAT(message("7"), HasSubstr("expected a host in quotes"));
  EXPECT_THAT(message("\"h1\", \"H1\""), HasSubstr("H1 is listed twice"));
  EXPECT_THAT(message("\"fd00::1\", \"fd00:0::1\""), HasSubstr("listed twice"));
  EXPECT_THAT(message("\"localhost\", \"h1\""), HasSubstr("cannot reach this one as localhost"));
  EXPECT_THAT(message("{ ssh = \"h1\" }"), HasSubstr("a host needs an address"));
  EXPECT_THAT(message("{ address = \"h1\", ssh = \"-x\" }"), HasSubstr("no host for ssh"));
  EXPECT_THAT(message("{ address = \"h[1-2]\", ssh = \"b[1-3]\" }"), HasSubstr("names 3 hosts"));
  EXPECT_THAT(message("{ address = \"h1\", transport = \"tcp\" }"),
              HasSubstr("\"openssh\", \"srun\" or \"local\""));
  EXPECT_THAT(message("{ address = \"h1\", ssh = \"b\", transport = \"local\" }"),
              HasSubstr("not reached over SSH"));
  EXPECT_THAT(message("{ address = \"h1\", slots = 0 }"), HasSubstr("from 1 to 256"));
  EXPECT_THAT(message("{ address = \"h1\", gpus = [-1] }"), HasSubstr("from 0 to 1023"));
  EXPECT_THAT(message("{ address = \"h1\", spare = 1 }"), HasSubstr("true or false"));
}

TEST_F(Mistakes, InRolesAreExplained) {
  const auto message = [&](const std::string& cluster) {
    const auto messages = ClusterMessages("hosts = [\"h[1-2]\"]\n" + cluster);
    return messages.size() == 1 ? messages.front() : testing::PrintToString(messages);
  };
  EXPECT_THAT(message("[roles.evaluator]\ncount = 1"),
              HasSubstr("refuses an evaluator beside a master"));
  EXPECT_THAT(message("chief_name = \"chief\"\n[roles.evaluator]\ncount = 2"),
              HasSubstr("TensorFlow takes one evaluator, this makes 2"));
  EXPECT_THAT(message("[roles.chief]\ncount = 1"), HasSubstr("calls its chief master here"));
  EXPECT_THAT(message("[roles.master]\nper_host = 2"), HasSubstr("takes one master, this makes 2"));
  EXPECT_THAT(message("layout = \"mirrored\"\n[roles.ps]\ngpus = 0"), HasSubstr("has no ps"));
  EXPECT_THAT(message("layout = \"mirrored\"\n[roles.reader]\ncount = 1"), HasSubstr("refuses"));
  EXPECT_THAT(message("layout = \"mirrored\"\nchief_name = \"master\""), HasSubstr("knows no"));
  EXPECT_THAT(message("layout = \"roles\"\n[roles.worker]\ngpus = 0"), HasSubstr("how many tasks"));
  EXPECT_THAT(message("layout = \"roles\"\n[roles.ps]\ncount = 1"), HasSubstr("no task ever ends"));
  EXPECT_THAT(message("layout = \"roles\"\nchief_name = \"chief\"\n[roles.chief]\ncount = 1"),
              HasSubstr("names its chief itself"));
  EXPECT_THAT(message("layout = \"roles\"\n[roles.chief]\ncount = 1\n[roles.master]\ncount = "
                      "1\nports = 1"),
              HasSubstr("either a chief or a master"));
  EXPECT_THAT(message("[roles.worker]\ncount = 3\nper_host = 1"),
              HasSubstr("3 tasks, but 1 on each"));
  EXPECT_THAT(message("[roles.\"param-server\"]\ncount = 1"), HasSubstr("is no task type"));
  EXPECT_THAT(
      message("ports = { worker = \"any\" }"),
      HasSubstr("expected \"auto\", a list of ports, or a whole number from 1 to 65535, got text"));
  EXPECT_THAT(message("ports = \"any\""),
              HasSubstr("cluster.ports: expected \"auto\", or a table of ports by role"));
  EXPECT_THAT(message("ports = { wroker = 1 }"), HasSubstr("has no role 'wroker'"));
  EXPECT_THAT(message("[roles.worker]\nhosts = [{ address = \"h1\" }]"),
              HasSubstr("described on line 6 already"));
  EXPECT_THAT(message("[roles.worker]\nhosts = [\"h1\", \"h1\"]"), HasSubstr("listed twice"));
  EXPECT_THAT(message("[roles.worker]\nhosts = [{ address = \"h9\", spare = true }]"),
              HasSubstr("serves the whole job"));
  EXPECT_THAT(message("[roles.worker]\ncolour = \"x\""), HasSubstr("unknown key"));
}

TEST_F(Mistakes, InTaskSettingsAreExplained) {
  const auto message = [&](const std::string& task) {
    const auto messages = Messages("name = \"n\"\n[cluster]\nhosts = [\"h1\"]\n[task]\n" + task);
    return messages.size() == 1 ? messages.front() : testing::PrintToString(messages);
  };
  const auto with_command = [&](const std::string& task) {
    return message("command = [\"a\"]\n" + task);
  };
  EXPECT_THAT(message(""), HasSubstr("nothing says what ps, master runs"));
  EXPECT_THAT(message("command = []"), HasSubstr("names no program"));
  EXPECT_THAT(message("command = [\"\"]"), HasSubstr("names no program"));
  EXPECT_THAT(message("command = [\"a\", 1]"),
              HasSubstr("task.command[1]: expected text in quotes"));
  EXPECT_THAT(message("command = [\"a\\u0000\"]"), HasSubstr("NUL"));
  EXPECT_THAT(with_command("env = { \"A=B\" = \"1\" }"), HasSubstr("neither '=' nor NUL"));
  EXPECT_THAT(with_command("env = { \"\" = \"1\" }"), HasSubstr("needs a name"));
  EXPECT_THAT(with_command("env = { TFDIST_JOB = \"1\" }"), HasSubstr("TFDIST_*"));
  EXPECT_THAT(with_command("env = { CUDA_VISIBLE_DEVICES = \"1\" }"), HasSubstr("gpus"));
  EXPECT_THAT(with_command("env = { A = \"\\u0000\" }"), HasSubstr("NUL"));
  EXPECT_THAT(with_command("gpus = nan"), HasSubstr("a number with a point"));
  EXPECT_THAT(with_command("gpus = -1"), HasSubstr("from 0 to"));
  EXPECT_THAT(with_command("shared = \"out\""), HasSubstr("absolute path"));
  EXPECT_THAT(message("command = [\"python3\", \"{tensorflow_server}\"]"),
              HasSubstr("{tensorflow_server} is a whole command"));
  EXPECT_THAT(with_command("cwd = \"mnist\""), HasSubstr("[task] has no workdir"));
  EXPECT_THAT(with_command("cwd = \"a/../../b\"\nworkdir = \".\""),
              HasSubstr("leads out of the work folder"));
  EXPECT_THAT(with_command("cwd = \"\""), HasSubstr("got an empty one"));
  EXPECT_THAT(with_command("cwd = \"/data/{host}\""), HasSubstr("no address of a task"));
  EXPECT_THAT(with_command("output = \"both\""), HasSubstr("\"merged\" or \"separate\""));
  EXPECT_THAT(with_command("log_limit = \"1 GiB\""), HasSubstr("expected a size"));
  EXPECT_THAT(with_command("log_limit = \"0B\""), HasSubstr("expected a size"));
  EXPECT_THAT(with_command("workdir = \"cluster.toml\""), HasSubstr("is no folder"));
  EXPECT_THAT(with_command("[ssh]\nidentity_file = \"absent\""), HasSubstr("there is no file"));
  EXPECT_THAT(with_command("[ssh]\nuser = \"-x\""), HasSubstr("no user name"));
  EXPECT_THAT(with_command("[ssh]\nremote_dir = \"tmp\""), HasSubstr("begins with '/' or '~/'"));
  EXPECT_THAT(with_command("[ssh]\ntransport = \"local\""), HasSubstr("\"openssh\" or \"srun\""));
  EXPECT_THAT(with_command("[control]\nport = 0"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(with_command("[tensorboard]\nlogdir = \"{shared}/x\""),
              HasSubstr("{shared} stands for nothing"));
  EXPECT_THAT(with_command("[tensorboard]\nlogdir = \"runs/{task}\""),
              HasSubstr("only {shared} may stand here"));
  EXPECT_THAT(with_command("[restart]\nps = \"always\""),
              HasSubstr("expected \"task\", \"gang\", \"never\", \"exit-code\", \"OnFailure\", "
                        "\"ExitCode\" or \"Never\", got 'always'"));
  EXPECT_THAT(
      with_command("gpus = \"all\""),
      HasSubstr("expected \"auto\", a list of GPUs, or a whole number from 0 to 1024, got"));
  EXPECT_THAT(with_command("grace = \"1 day\""), HasSubstr("(units: ms, s, m, h or d), got"));
  EXPECT_THAT(with_command("log_limit = \"1gb\""), HasSubstr("GiB, TiB, KB, kB, MB, GB or TB)"));
  EXPECT_THAT(with_command("[restart]\non_host_lost = \"pray\""),
              HasSubstr("\"fail\" or \"wait\""));
  EXPECT_THAT(with_command("[restart]\nhost_lost = \"1s\""), HasSubstr("expected 5s to 1h"));
  EXPECT_THAT(with_command("[restart]\norphan_timeout = \"15s\""),
              HasSubstr("expected 22s at least: twice host_lost"));
  EXPECT_THAT(with_command("[restart]\norphan_timeout = \"25h\""),
              HasSubstr("expected 24h at most"));
  EXPECT_THAT(with_command("[restart]\nexclusive = \"yes\""), HasSubstr("true or false"));
  EXPECT_THAT(with_command("[restart]\nps = 3"), HasSubstr("expected a policy in quotes"));
}

TEST_F(Mistakes, InNamesAreExplained) {
  for (const char* name : {"", ".", "..", "-x", "a b", "a/b", "\\u0007",
                           "0123456789012345678901234567890123456789012345678"}) {
    const auto messages = Messages("name = \"" + std::string(name) +
                                   "\"\n[cluster]\nhosts = [\"h1\"]\n[task]\ncommand = [\"a\"]");
    EXPECT_EQ(messages.size(), 1U) << name;
  }
}

TEST_F(Mistakes, PathsGoByTheClusterFilesFolder) {
  const Plan plan = Load(
      "name = \"n\"\n[cluster]\nhosts = [\"h1\"]\n[task]\ncommand = [\"a\"]\nworkdir = "
      "\"work/../work\"\n[ssh]\nconfig = \"cluster.toml\"");
  EXPECT_EQ(plan.workdir, folder() / "work");
  EXPECT_EQ(plan.ssh.config, folder() / "cluster.toml");
  EXPECT_EQ(plan.file, folder() / "cluster.toml");
}

TEST_F(Mistakes, SshMayBeToldToReadNoConfiguration) {
  for (const std::string config : {"none", "/dev/null"}) {
    const Plan plan = LoadCluster("hosts = [\"h1\"]\n[ssh]\nconfig = \"" + config + "\"");
    EXPECT_EQ(plan.ssh.config, config);
  }
}

TEST_F(Mistakes, HostileNestingIsRefusedAndNotFollowed) {
  std::string dotted = "a";
  for (int i = 0; i < 200'000; ++i) dotted += ".a";
  EXPECT_THAT(Messages(dotted + " = 1"), ElementsAre(HasSubstr("a key of more than 16 parts")));
  EXPECT_THAT(Messages("[" + dotted + "]"), ElementsAre(HasSubstr("a key of more than 16 parts")));
  EXPECT_THAT(Messages("x = " + std::string(100'000, '[')), ElementsAre(HasSubstr("not TOML")));
}

// Both were undefined behaviour in toml++: see toml_plus_plus.h.
TEST_F(Mistakes, ThatStopTomlPlusPlusAreSyntaxErrors) {
  EXPECT_THAT(Messages("a = [1979-05-27 0,"), ElementsAre(HasSubstr("not TOML")));
  EXPECT_THAT(Messages("\xcc\xaa"), ElementsAre(HasSubstr("not TOML")));
  const Plan plan =
      LoadCluster("hosts = [\"h1\"]\n[roles.ps]\nenv = { A = \"\"\"\\\n\xc2\xa7\"\"\" }");
  EXPECT_EQ(EnvOf(plan, "ps:0", "A"), "\xc2\xa7");
}

TEST(KeyDepth, CountsOutsideOfStringsAndCommentsOnly) {
  const std::string dots(40, '.');
  EXPECT_EQ(LineOfTooDeepKey("# " + dots + "\na = \"" + dots + "\"\nb = '" + dots + "'"),
            std::nullopt);
  EXPECT_EQ(LineOfTooDeepKey("a = \"\"\"\n" + dots + "\n\"\"\"\"\" # five\n"), std::nullopt);
  EXPECT_EQ(LineOfTooDeepKey("a = \"\\\"" + dots + "\""), std::nullopt);
  EXPECT_EQ(LineOfTooDeepKey("a = \"\"\"x\"\"\"\"\n\n" + dots + " = 1"), 3);
  EXPECT_EQ(LineOfTooDeepKey("a = ''\n" + dots), 2);
}

constexpr std::string_view kKnown[] = {"command", "workdir", "env", "ps"};

TEST(Nearest, FindsWhatWasMeant) {
  EXPECT_EQ(NearestWord("comand", kKnown), "command");
  EXPECT_EQ(NearestWord("workdri", kKnown), "workdir");
  EXPECT_EQ(NearestWord("evn", kKnown), "env");
  EXPECT_EQ(NearestWord("comm", kKnown), "command");
  EXPECT_EQ(NearestWord("--lr", std::array<std::string_view, 1>{"--layout"}), "");
  constexpr std::string_view kLayouts[] = {"uai", "mirrored", "roles"};
  EXPECT_EQ(NearestWord("miror", kLayouts), "mirrored");
  EXPECT_EQ(NearestWord("mirrr", kLayouts), "mirrored");
  EXPECT_EQ(NearestWord("role", kLayouts), "roles");
  EXPECT_EQ(NearestWord("ring", kLayouts), "");
  EXPECT_EQ(NearestWord("xyz", kKnown), "");
  EXPECT_EQ(NearestWord("", kKnown), "");
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3U);
  EXPECT_EQ(EditDistance("uia", "uai"), 1U);
}

TEST(HostRange, ExpandsWhatLooksLikeOne) {
  const auto names = [](std::string_view text) {
    return std::get<std::vector<std::string>>(ExpandRanges(text));
  };
  EXPECT_THAT(names("10.0.0.[1-3]"), ElementsAre("10.0.0.1", "10.0.0.2", "10.0.0.3"));
  EXPECT_THAT(names("gpu[08-10]"), ElementsAre("gpu08", "gpu09", "gpu10"));
  EXPECT_THAT(names("n[1-2,7]"), ElementsAre("n1", "n2", "n7"));
  EXPECT_THAT(names("r[1-2]n[1-2].lab"),
              ElementsAre("r1n1.lab", "r1n2.lab", "r2n1.lab", "r2n2.lab"));
  EXPECT_THAT(names("[::1]"), ElementsAre("[::1]"));
  EXPECT_THAT(names("h"), ElementsAre("h"));
}

TEST_F(Mistakes, AWordThatIsNearlyOneOfThePossibleIsToldTheNearest) {
  const auto hint = [&](const std::string& cluster) {
    const std::string rest =
        "name = \"n\"\n[task]\ncommand = [\"c\"]\n[cluster]\nhosts = [\"h1\"]\n";
    return Problems(rest + cluster).at(0).hint;
  };
  EXPECT_EQ(hint("layout = \"miror\""), "did you mean 'mirrored'?");
  EXPECT_EQ(hint("ports = \"aut\""), "did you mean 'auto'?");
  EXPECT_EQ(hint("ports = { worker = \"atuo\" }"), "did you mean 'auto'?");
  EXPECT_EQ(hint("[restart]\nworker = \"gan\""), "did you mean 'gang'?");
  EXPECT_EQ(hint("[restart]\nworker = \"x\""), "");
}

TEST_F(Mistakes, WhatFollowsADeadlineNeedsOne) {
  EXPECT_THAT(ClusterMessages("hosts = [\"h1\"]"), IsEmpty());
  const std::string rest = "name = \"n\"\n[task]\ncommand = [\"c\"]\n[cluster]\nhosts = [\"h1\"]\n";
  EXPECT_THAT(Messages("on_deadline = \"succeed\"\n" + rest),
              ElementsAre("on_deadline: there is no deadline"));
  EXPECT_THAT(Messages("deadline = \"2h\"\non_deadline = \"end\"\n" + rest),
              ElementsAre("on_deadline: expected \"fail\" or \"succeed\", got 'end'"));
  EXPECT_TRUE(Load("deadline = \"2h\"\non_deadline = \"succeed\"\n" + rest).deadline_succeeds);
}

TEST(Quantity, ReadsDurationsAndSizes) {
  EXPECT_EQ(ParseDurationMs("500ms"), 500);
  EXPECT_EQ(ParseDurationMs("2s"), 2000);
  EXPECT_EQ(ParseDurationMs("5m"), 300'000);
  EXPECT_EQ(ParseDurationMs("1h"), 3'600'000);
  EXPECT_EQ(ParseDurationMs("7d"), 604'800'000);
  for (const char* bad : {"", "2", "s", "-1s", "1.5s", "2 s", "9223372036854775807h"}) {
    EXPECT_EQ(ParseDurationMs(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(ParseOptionMs("2"), 2000);
  EXPECT_EQ(ParseOptionMs("500ms"), 500);
  for (const char* bad : {"", "s", "-1", "1.5", "9223372036854775807"}) {
    EXPECT_EQ(ParseOptionMs(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(ParseSizeBytes("1GiB"), int64_t{1} << 30);
  EXPECT_EQ(ParseSizeBytes("1MB"), 1'000'000);
  EXPECT_EQ(ParseSizeBytes("1gb"), std::nullopt);
}

}  // namespace
}  // namespace tfdist::cli

#include "cli/render/render.h"

#include <gmock/gmock.h>

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/text.h"
#include "cli/plan/testing/test_files.h"
#include "cli/render/quote.h"
#include "cli/render/settings.h"
#include "cli/render/table.h"

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::Pair;

class Render : public PlanTest {};

TEST_F(Render, TheTableSaysWhoRunsWhatWhere) {
  const Plan plan = Load(R"(name = "n"
[cluster]
hosts = ["10.0.0.[1-2]", { address = "10.0.0.3", spare = true }]
[task]
command = ["python3", "train.py", "a b", "{task_index}"]
)");
  EXPECT_EQ(RenderTable(plan),
            "TASK      HOST      ADDRESS        CHIEF  GPUS  COMMAND\n"
            "ps:0      10.0.0.1  10.0.0.1:2223  -      none  python3 train.py 'a b' 0\n"
            "master:0  10.0.0.1  10.0.0.1:2222  yes    all   python3 train.py 'a b' 0\n"
            "ps:1      10.0.0.2  10.0.0.2:2223  -      none  python3 train.py 'a b' 1\n"
            "worker:0  10.0.0.2  10.0.0.2:2222  -      all   python3 train.py 'a b' 0\n"
            "spare host: 10.0.0.3\n");
}

TEST_F(Render, WhatConnectionsUseOfThisMachineIsShown) {
  Plan plan = LoadCluster("hosts = [\"10.0.0.1\"]");
  EXPECT_THAT(RenderTable(plan), testing::Not(HasSubstr("ssh:")));
  EXPECT_EQ(nlohmann::json::parse(RenderJson(plan)).at("ssh"), nlohmann::json::object());
  plan.ssh.config = "/c/sshc";
  plan.ssh.transport = "openssh";
  EXPECT_THAT(RenderTable(plan),
              HasSubstr("ssh: transport openssh\nssh: config /c/sshc\nssh: commands of that"));
  EXPECT_EQ(nlohmann::json::parse(RenderJson(plan)).at("ssh").at("config"), "/c/sshc");
}

TEST_F(Render, TheJsonHasTheShapeThatScriptsRelyOn) {
  const Plan plan = LoadCluster(
      "hosts = [\"10.0.0.[1-2]\"]\n[roles.worker]\ngpus = \"auto\"\nenv = { A = \"{task}\" }");
  const auto json = nlohmann::ordered_json::parse(RenderJson(plan));
  EXPECT_EQ(json.at("name"), "digits");
  EXPECT_EQ(json.at("layout"), "uai");
  const auto& worker = json.at("tasks").at(3);
  std::vector<std::string> keys;
  for (const auto& [key, value] : worker.items()) keys.push_back(key);
  EXPECT_THAT(keys, testing::ElementsAre("task", "type", "index", "host", "address", "more_ports",
                                         "chief", "argv", "cwd", "env", "gpus", "image", "engine"));
  EXPECT_EQ(worker.at("task"), "worker:0");
  EXPECT_EQ(worker.at("type"), "worker");
  EXPECT_EQ(worker.at("index"), 0);
  EXPECT_EQ(worker.at("host"), "10.0.0.2");
  EXPECT_EQ(worker.at("address"), "10.0.0.2:2222");
  EXPECT_EQ(worker.at("chief"), false);
  EXPECT_EQ(worker.at("argv"), nlohmann::ordered_json({"program"}));
  EXPECT_THAT(worker.at("env").at("A").get<std::string>(), testing::StartsWith("sha256:"));
  EXPECT_EQ(worker.at("env").at("TF_CONFIG"), EnvOf(plan, "worker:0", "TF_CONFIG"));
  EXPECT_TRUE(worker.at("gpus").is_null());
  EXPECT_EQ(json.at("tasks").at(0).at("gpus"), nlohmann::ordered_json::array());
}

TEST_F(Render, PathsThatOnlyTheHostKnowsAreNamedSo) {
  const Plan plan = Load(
      "name = \"n\"\n[cluster]\nhosts = [\"h1\"]\n[task]\nworkdir = \"work\"\ncommand = "
      "[\"{runtime}\", \"{workdir}/x\", \"{keep}/x\"]");
  EXPECT_THAT(RenderTable(plan), HasSubstr(" <jobdir>/runtime <jobdir>/work/x <keep>/x\n"));
  const auto json = nlohmann::json::parse(RenderJson(plan));
  EXPECT_EQ(json.at("tasks").at(0).at("argv").at(0), "<jobdir>/runtime");
  EXPECT_EQ(json.at("tasks").at(0).at("cwd"), "<jobdir>/work");
}

TEST_F(Render, EnvUnsetsWhatTheTaskMustNotHave) {
  const Plan plan = Load(
      "name = \"n\"\n[cluster]\nhosts = [\"h1\"]\n[task]\ncommand = [\"a\"]\nenv = { \"A.B\" = "
      "\"1\" }");
  EXPECT_THAT(RenderEnv(plan, "master:0"),
              EndsWith("\n# sh cannot set a variable of this name: A.B\n"
                       "export PYTHONUNBUFFERED='1'\nexport TFDIST_JOB='n'\n"
                       "export TFDIST_TASK='master:0'\nexport TFDIST_HOST='h1'\n"
                       "export TFDIST_ATTEMPT='1'\n# set on the host: TFDIST_JOB_ID TFDIST_LOG_DIR "
                       "TFDIST_SECRET_FILE TFDIST_COOKIE\nunset CUDA_VISIBLE_DEVICES\n"));
  EXPECT_THAT(RenderEnv(plan, "ps:0"), HasSubstr("\nexport CUDA_VISIBLE_DEVICES=''\n"));
  EXPECT_THROW(RenderEnv(plan, "ps:1"), Error);
}

TEST_F(Render, WhatTheHostDecidesIsSaidSo) {
  const Plan plan = Load(
      "name = \"n\"\n[cluster]\nlayout = \"mirrored\"\nhosts = [{ address = \"h1\", slots = 2 "
      "}]\n[task]\ncommand = [\"a\"]");
  EXPECT_THAT(RenderTable(plan), HasSubstr("  decided on the host  a\n"));
  EXPECT_EQ(nlohmann::json::parse(RenderJson(plan)).at("tasks").at(0).at("gpus"),
            "decided on the host");
  EXPECT_THAT(RenderEnv(plan, "worker:0"),
              EndsWith("unset CUDA_VISIBLE_DEVICES\n# decided on the host, if it has GPUs: "
                       "CUDA_VISIBLE_DEVICES\n"));
}

TEST_F(Render, ShReadsEveryValueByteByByte) {
  const std::string value = "it's \"q\" $(x) `y` \\ \n\n\t*? é 🙂\n";
  const Plan plan = LoadCluster(
      "hosts = [\"h1\"]\n[roles.ps]\nenv = { A = \"it's \\\"q\\\" $(x) `y` \\\\ \\n\\n\\t*? é "
      "🙂\\n\" }");
  ASSERT_EQ(EnvOf(plan, "ps:0", "A"), value);
  const auto script = folder() / "env.sh";
  FILE* file = fopen(script.c_str(), "we");
  fputs(RenderEnv(plan, "ps:0").c_str(), file);
  fclose(file);
  FILE* shell = popen((". " + script.string() + "; printenv A TF_CONFIG").c_str(), "re");
  std::string output;
  for (int c = fgetc(shell); c != EOF; c = fgetc(shell)) output += static_cast<char>(c);
  EXPECT_EQ(pclose(shell), 0);
  EXPECT_EQ(output, value + "\n" + EnvOf(plan, "ps:0", "TF_CONFIG") + "\n");
}

TEST_F(Render, SettingsAreInTheWordsOfTheFile) {
  const Plan plan = LoadCluster(
      "hosts = [\"h1\"]\n[roles.ps]\nvenv = \"~/tf\"\nenv = { A = \"x y\" }\nlog_limit = "
      "\"64MiB\"");
  EXPECT_THAT(SettingsOf(plan, TaskNamed(plan, "ps:0")),
              ElementsAre(Pair("env.A", "sha256:" + Sha256Hex("x y").substr(0, 8)),
                          Pair("env.PYTHONUNBUFFERED", "1"), Pair("gpus", "none"),
                          Pair("grace", "10s"), Pair("host", "h1"), Pair("log_limit", "64MiB"),
                          Pair("output", "merged"), Pair("port", "2223"),
                          Pair("restart", "gang (default), limit 3 within 10m, backoff 2s"),
                          Pair("venv", "~/tf")));
}

TEST_F(Render, SettingsOfTheJobAreInTheWordsOfTheFile) {
  Plan plan = LoadCluster("hosts = [\"h1\", { address = \"h2\", spare = true }]\n");
  plan.deadline_ms = 300'000;
  plan.warning_ms = 90'000;
  plan.warning_signal = SIGUSR1;
  EXPECT_THAT(SettingsOf(plan),
              IsSupersetOf({Pair("deadline", "5m"), Pair("on_deadline", "fail"),
                            Pair("deadline_warning", "90s"), Pair("deadline_signal", "SIGUSR1"),
                            Pair("spare hosts", "h2"), Pair("restart.on_host_lost", "wait")}));
}

TEST_F(Render, ValuesOfTheUsersVariablesAreShownByEnvAlone) {
  const Plan plan = LoadCluster("hosts = [\"h1\"]\n[roles.ps]\nenv = { TOKEN = \"canary\" }");
  EXPECT_THAT(RenderEnv(plan, "ps:0"), HasSubstr("\nexport TOKEN='canary'\n"));
  EXPECT_THAT(RenderJson(plan), Not(HasSubstr("canary")));
  EXPECT_THAT(RenderTable(plan), Not(HasSubstr("canary")));
}

TEST(Quote, ShowsControlCharactersOnOneLine) {
  EXPECT_EQ(ShellWord("a-b/c=1"), "a-b/c=1");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord("a\nb\x1b'\\"), "$'a\\nb\\x1b\\'\\\\'");
}

TEST(Table, FitsItsTerminalByTheColumnsThatCharactersTake) {
  const std::vector<std::vector<std::string>> rows = {
      {"JOB", "STATE", "COMMAND"},
      {"digits-20261125T090159Z-06e68b", "running", "\u8a13\u7df4 \U0001f680 x"}};
  EXPECT_EQ(DisplayWidth("\u8a13\u7df4 \U0001f680 x"), 9U);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1U);
  for (const size_t columns : {size_t{34}, size_t{40}, size_t{80}}) {
    std::string_view text;
    const std::string table = AlignColumns(rows, columns);
    for (text = table; !text.empty();) EXPECT_LE(DisplayWidth(TakeUpTo('\n', text)), columns);
  }
  EXPECT_EQ(DisplayWidth("\u2705\u2b50\u2756"), 5U);
  EXPECT_EQ(AlignColumns(
                {{"JOB", "STATE", "COMMAND"},
                 {"digits-20261125T090159Z-06e68b", "running", "\u8a13\u7df4 train.py --lr 0.1"}},
                52),
            "JOB                             STATE    COMMAND\n"
            "digits-20261125T090159Z-06e68b  running  \u8a13\u7df4 \u2026r 0.1\n");
}

TEST(Table, InAPipeOneLongCellMakesNoOtherRowLong) {
  const std::string label(300, 'x');
  EXPECT_EQ(AlignColumns({{"JOB", "LABELS", "FILE"}, {"a", label, "f"}, {"b", "-", "f"}}),
            "JOB  LABELS                            FILE\na    " + label +
                "  f\nb    -                                 f\n");
}

TEST(Table, TheFirstColumnIsWhole) {
  const std::string id = "digits-20261125T090159Z-06e68b";
  const std::string table = AlignColumns({{"JOB", "STATE"}, {id, "running"}}, 20);
  EXPECT_EQ(table, "JOB\n" + id + "\n");
}

// The length of a command is the user's to choose.
TEST(Table, TakesALongCellInLinearTime) {
  const std::string table =
      AlignColumns({{"TASK", "COMMAND"}, {"worker:0", std::string(1 << 20, 'x')}}, 80);
  EXPECT_EQ(DisplayWidth(table), sizeof "TASK      COMMAND\n" - 1 + 80 + 1);
}

}  // namespace
}  // namespace tfdist::cli

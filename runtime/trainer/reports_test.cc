#include "runtime/trainer/reports.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "base/testing/temporary_folder.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

Measurement Measured() {
  Measurement measurement;
  measurement.step = 500;
  measurement.learning_rate = 0.25F;
  measurement.steps_per_second = 1000;
  measurement.bytes_per_second = 3'000'000;
  measurement.waiting = 0.5;
  measurement.servers = {{"ps:0", 1'000'000, 3, 1, 0.25}, {"ps:1", 2'000'000, 40, 0, 0.75}};
  measurement.loss = 0.125;
  measurement.staleness = 1.5;
  measurement.quality = Quality{0.5, 0.75};
  measurement.samples = "test";
  return measurement;
}

TEST(Reports, WriteALineOfJson) {
  EXPECT_EQ(JsonLine(Measured(), 10.5),
            R"({"step":500,"time":10.5,"loss":0.125,"test_accuracy":0.75,"test_loss":0.5,)"
            R"("learning_rate":0.25,"steps_per_second":1000.0,"bytes_per_second":3000000.0,)"
            R"("staleness":1.5,"waiting":0.5,"servers":[{"server":"ps:0","bytes_per_second":)"
            R"(1000000.0,"queue":3,"held":1,"load":0.25},{"server":"ps:1",)"
            R"("bytes_per_second":2000000.0,"queue":40,"held":0,"load":0.75}]})");
}

TEST(Reports, SayHowFarTrainingIs) {
  EXPECT_EQ(StatusText(Measured(), 2000),
            "step 500 of 2000, loss 0.1250, test accuracy 0.7500, 1000 steps/s, 3.0 MB/s");
}

TEST(Reports, ShowTheServersInATable) {
  EXPECT_EQ(ServerTable({{"ps:0", 40'000, 1'500'000, 1'500'000}, {"ps:1", 600, 500'000, 500'000}}),
            (std::vector<std::string>{
                "server         holds        sent    received    load",
                "ps:0         40.0 kB      1.5 MB      1.5 MB  75.0 %",
                "ps:1          0.6 kB    500.0 kB    500.0 kB  25.0 %",
                "balance: the server with the largest load has 1.50 times the mean"}));
}

TEST(Reports, GoToAllThatIsAskedFor) {
  const TemporaryFolder folder;
  std::string status;
  ReportOptions options;
  options.metrics = folder.path() / "metrics.jsonl";
  options.summaries = folder.path() / "logs";
  options.status = [&](const std::string& text) { status = text; };
  const Say say = [](const std::string& line) { ADD_FAILURE() << line; };
  for (int start = 0; start < 2; ++start) Reports(options, 2000, say).Add(Measured());
  EXPECT_EQ(status, StatusText(Measured(), 2000));
  const std::string lines = ReadFileIfExists(options.metrics, 1 << 20).value_or("");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  EXPECT_EQ(nlohmann::json::parse(lines.substr(0, lines.find('\n')))["step"], 500);
  EXPECT_NE(std::filesystem::directory_iterator(options.summaries),
            std::filesystem::directory_iterator());
}

TEST(Reports, ADiskThatTakesNoMoreCostsTheFileAlone) {
  std::vector<std::string> lines;
  const Say say = [&](const std::string& line) { lines.push_back(line); };
  ReportOptions options;
  options.metrics = "/dev/full";
  Reports reports(options, 2000, say);
  reports.Add(Measured());
  reports.Add(Measured());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("/dev/full"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("No space left on device; it is written no more"), std::string::npos)
      << lines[0];
}

TEST(Reports, NameTheFileThatTheyCannotOpen) {
  ReportOptions options;
  options.metrics = "/nowhere/metrics.jsonl";
  testing::ExpectError([&] { Reports(options, 1, [](const std::string&) {}); }, Phase::kFiles,
                       "/nowhere/metrics.jsonl");
}

}  // namespace
}  // namespace tfdist::runtime

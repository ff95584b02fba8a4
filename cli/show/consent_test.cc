#include "cli/show/consent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>

#include "base/testing/test_paths.h"

namespace tfdist::cli {
namespace {

struct Row {
  Deed deed;
  const char* commands;
  bool needs_job;      // it is always named: by its plan's name, or one by one
  bool by_id = false;  // which means one job
  bool takes_hosts = true;
  bool takes_file = true;
};
constexpr std::array kRows = {
    Row{Deed::kLook, "`status` `why` `top` `events` `wait` `logs` `pull` `tensorboard`", false},
    Row{Deed::kEnter, "`exec` `shell`", false, false, false},
    Row{Deed::kRestart, "`restart`", false},
    Row{Deed::kEnd, "`down` `down --force`", false},
    Row{Deed::kPurge, "`down --purge`", false},
    Row{Deed::kPurgeKept, "`down --purge` where `{keep}` goes", false},
    Row{Deed::kReplace, "`up --replace`", true, false, false},
    Row{Deed::kUseKept, "`up` where `{keep}` has files of another user or machine", true, false,
        false},
    Row{Deed::kForget, "`prune` where files of tasks are left", false, false, false, false},
    Row{Deed::kForgetLogs, "`prune` where none is", false, false, false, false},
    Row{Deed::kForget, "`prune ID`", true, true, false, false},
    Row{Deed::kClean, "`clean` `clean --purge` `clean -H`", true},
};

constexpr std::array kColumns = {
    JobsMeant{.named = false, .running = 1, .finished = 2},
    JobsMeant{.named = false, .running = 2, .finished = 2},
    JobsMeant{.named = false, .running = 0, .finished = 2},
    JobsMeant{.named = true, .running = 1, .finished = 0},
    JobsMeant{.named = true, .running = 0, .finished = 1},
    JobsMeant{.named = true, .running = 1, .finished = 1},
    JobsMeant{.named = true, .running = 0, .finished = 2},
    JobsMeant{.named = true, .running = 2, .finished = 0},
    JobsMeant{.named = false, .running = 1, .finished = 2, .on_hosts = true},
    JobsMeant{.named = true, .running = 1, .finished = 0, .of_another_project = true},
};

std::string Cell(const Row& row, const JobsMeant& jobs) {
  if (jobs.on_hosts && !row.takes_hosts) return "-";
  if (jobs.of_another_project && !row.takes_file) return "-";
  if (row.needs_job && !jobs.named && !jobs.on_hosts) return "-";
  if (row.by_id && jobs.running + jobs.finished > 1) return "-";
  JobsMeant meant = jobs;
  meant.by_id = row.by_id;
  switch (ConsentFor(row.deed, meant)) {
    case Consent::kGiven:
      return "does";
    case Consent::kAsked:
      return "asks";
    case Consent::kOffered:
      return "offers";
    case Consent::kRefused:
      return "refuses";
  }
  return "";
}

TEST(ConsentTest, IsWhatThePageShows) {
  std::ostringstream page;
  page << std::ifstream(TestSourceDir() / "docs/consent.md").rdbuf();
  for (const Row& row : kRows) {
    std::string line = std::string("| ") + row.commands + " |";
    for (const JobsMeant& jobs : kColumns) line += " " + Cell(row, jobs) + " |";
    // The last column is test_consent's: what becomes of the question where there is no terminal.
    EXPECT_NE(page.str().find(line + " "), std::string::npos) << line;
  }
  const std::string text = page.str();
  size_t rows = 0;
  for (size_t at = text.find("\n| `"); at != text.npos; at = text.find("\n| `", at + 1)) ++rows;
  EXPECT_EQ(rows, kRows.size());
  const std::string header =
      text.substr(text.find("| command |"), text.find("\n| ---") - text.find("| command |"));
  EXPECT_EQ(std::ranges::count(header, '|'), static_cast<long>(kColumns.size()) + 3) << header;
}

TEST(ConsentTest, TheOnlyJobThatThereIsNeedsANameToBePurged) {
  EXPECT_EQ(ConsentFor(Deed::kPurge, {.named = false, .running = 1, .finished = 0}),
            Consent::kAsked);
}

TEST(ConsentTest, NobodyPurgesAFinishedJobThatIsNotNamed) {
  for (const size_t finished : {1, 2, 3}) {
    EXPECT_EQ(ConsentFor(Deed::kPurge, {.named = false, .running = 0, .finished = finished}),
              Consent::kAsked);
  }
}

}  // namespace
}  // namespace tfdist::cli

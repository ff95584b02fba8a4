#include "agent/coordinator/mind/report_bounds.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tfdist::agent {
namespace {

constexpr size_t kLastLinesBytes = 4096;
constexpr size_t kErrorBytes = 1024;
constexpr size_t kCensusLines = 100;
constexpr size_t kCensusLineBytes = 200;

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

void Plain(std::string& text, size_t most) {
  if (text.size() > most) text.resize(most);
  std::replace_if(text.begin(), text.end(), IsControl, '?');
}

void Bound(std::vector<std::string>& lines) {
  if (lines.size() > kCensusLines) {
    const size_t more = lines.size() - kCensusLines + 1;
    lines.resize(kCensusLines - 1);
    lines.push_back("and " + std::to_string(more) + " more");
  }
  for (std::string& line : lines) Plain(line, kCensusLineBytes);
}

}  // namespace

HostReport Bounded(HostReport report) {
  Plain(report.keeper_lost, kErrorBytes);
  for (TaskReport& task : report.tasks) {
    std::string& lines = task.last_lines.value;
    if (lines.size() > kLastLinesBytes) lines.erase(0, lines.size() - kLastLinesBytes);
    if (task.exit) Plain(task.exit->error, kErrorBytes);
  }
  if (report.census) {
    Bound(report.census->killed);
    Bound(report.census->left);
    Bound(report.census->unknown);
    Bound(report.census->clients);
  }
  return report;
}

}  // namespace tfdist::agent

// What this machine remembers of a job: $XDG_STATE_HOME/tfdist/jobs/<id>.json, one file a job,
// 0600. Written before any host is touched; it says how to reach the hosts, never how the job
// fares.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

struct JobRecord {
  std::string id;
  std::string name;
  std::string plan_sha256;
  std::filesystem::path file;      // the cluster file, as it was then
  std::string created;             // 2026-08-01T12:00:00.123Z
  std::vector<HostPlan> hosts;     // index = slot
  std::vector<std::string> bases;  // tfdist's folder on each host; empty: not learned yet
  SshOptions ssh;
  struct Task {
    std::string id;  // "worker:0"
    int slot = 0;
    std::string line;  // how `render` shows it: tells what differs between two plans
  };
  std::vector<Task> tasks;
};

// The record of a job about to be started from `plan`.
JobRecord MakeRecord(const Plan& plan, std::string id, std::string plan_sha256);
// "<name>-20260801T120000Z-1a2b3c".
std::string NewJobId(std::string_view name);
bool IsJobId(std::string_view text);

// Throws Error(kFiles), before anything was started, when the record cannot be kept.
void SaveRecord(const JobRecord& record);
void RemoveRecord(std::string_view id);
// Newest first. A file that cannot be read as a record is passed over, with a line on stderr.
std::vector<JobRecord> LoadRecords();

}  // namespace tfdist::cli

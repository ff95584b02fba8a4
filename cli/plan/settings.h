// The settings of one role, from all tables of the cluster file that apply to it.
#pragma once

#include <optional>
#include <vector>

#include "cli/plan/placement.h"

namespace tfdist::cli {

// The more special first: the role's own table, its model's, [task].
std::vector<const TaskSettings*> SettingsOf(const ClusterFile& file, const Role& role);

// The first of the tables that says it.
template <typename T>
T Setting(const ClusterFile& file, const Role& role, std::optional<T> TaskSettings::*member,
          T otherwise) {
  for (const TaskSettings* settings : SettingsOf(file, role)) {
    if (settings->*member) return *(settings->*member);
  }
  return otherwise;
}

}  // namespace tfdist::cli

#include "cli/plan/settings.h"

namespace tfdist::cli {

std::vector<const TaskSettings*> SettingsOf(const ClusterFile& file, const Role& role) {
  std::vector<const TaskSettings*> settings;
  if (role.table != nullptr) settings.push_back(&role.table->settings);
  if (role.model != nullptr) settings.push_back(&role.model->settings);
  settings.push_back(&file.task);
  return settings;
}

}  // namespace tfdist::cli

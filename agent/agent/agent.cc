#include "agent/agent/agent.h"

#include <sys/file.h>

#include <utility>
#include <vector>

#include "agent/data/data_paths.h"
#include "agent/setup/set_up_step.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

// Slot 0, for a reader that comes just when the job ends.
constexpr std::chrono::milliseconds kLinger{2000};

}  // namespace

Agent::Agent(KeeperLink& keeper)
    : keeper_(keeper),
      slot_(ReadOwnSlot(keeper)),
      files_(loop_),
      log_sink_(files_),
      tasks_(loop_, files_, keeper_, slot_.folder, slot_.info,
             [this] { membership_.member().OnTasksChanged(); }),
      logs_(loop_, files_, slot_.folder, tasks_, [this] { return membership_.over(); }),
      shared_logs_(loop_, slot_.folder, slot_.info, keeper_.handover().host.umask),
      membership_({.loop = loop_,
                   .files = files_,
                   .slot = slot_,
                   .keeper = keeper_,
                   .tasks = tasks_,
                   .logs = logs_},
                  {.on_news = [this] { OnNews(); },
                   .on_release = [this] { farewell_.Begin(); },
                   .on_file_ask = [this](int slot, const auto& m) { deployment_.OnAsk(slot, m); },
                   .on_file_part = [this](const auto& m) { deployment_.OnPart(m); }}),
      deployment_(loop_, files_, keeper_, slot_.folder, slot_.info,
                  {.ask = [this](const auto& m) { membership_.AskFirstHost(m); },
                   .answer = [this](int slot, const auto& m) { membership_.Answer(slot, m); }},
                  [this](const auto& description) { OnDescribed(description); }),
      requests_(RequestParts(), RequestActions()),
      sessions_(loop_, slot_.folder.path(), MakeHello(slot_),
                [this](const auto& session, const auto& m) { OnMessage(session, m); }),
      departure_(loop_, files_, slot_.folder, [this] { OnLeaving(); },
                 {.has_readers = [this] { return sessions_.HasReaders(); },
                  .is_copying = [this] { return shared_logs_.busy(); },
                  .may_go_on = [this] { return membership_.member().orphaned(); }}),
      farewell_(
          loop_, [this] { return sessions_.HasReaders(); },
          slot_.leads() ? kLinger : std::chrono::milliseconds(0),
          [this] { membership_.Release([this] { departure_.Leave(); }); }),
      keeper_watch_(
          loop_, keeper_, [this](const auto& notes) { tasks_.OnNotes(notes); },
          [this] { log_sink_.Release(); }),
      commit_watch_(
          loop_, std::chrono::milliseconds(slot_.info.uncommitted_limit_ms),
          [this] { return membership_.committed() || departure_.leaving(); },
          [this] {
            requests_.RemoveForgottenMark();
            RemoveFolder([this](const auto&) { departure_.Leave(); });
          }),
      folder_use_(loop_, files_, slot_.folder) {
  tasks_.Recover(slot_.told.description);
  shared_logs_.Begin(slot_.told.description);
  MarkWhatIsUsed(slot_.told.description);
  membership_.Resume();
  Log("agent of {}", slot_.folder.path().string());
}

Requests::Parts Agent::RequestParts() {
  return {.files = files_,
          .folder = slot_.folder,
          .info = slot_.info,
          .deployment = deployment_,
          .dialer = membership_.dialer(),
          .member = membership_.member(),
          .coordinator = membership_.coordinator()};
}

Requests::Actions Agent::RequestActions() {
  return {
      .committed = [this] { return membership_.committed(); },
      .contact = [this] { return FindContact(); },
      .read_log = [this](auto... args) { return logs_.Open(std::move(args)...); },
      .look = [this](const auto& request,
                     auto done) { membership_.Look(request, std::move(done)); },
      .say_to_others = [this](const auto& one, const auto& m) { sessions_.SendToAllBut(one, m); },
      .remove_folder = [this](auto done) { RemoveFolder(std::move(done)); },
      .leave = [this] { departure_.Leave(); }};
}

void Agent::OnMessage(const std::shared_ptr<Session>& session, const protocol::Message& message) {
  // Another job asks: no word of this one's CLI.
  if (message.type != kContactRequest) commit_watch_.Heard();
  requests_.Handle(session, message);
}

void Agent::OnDescribed(const protocol::HostDescription& description) {
  tasks_.Describe(description);
  shared_logs_.Begin(description);
  MarkWhatIsUsed(description);
}

void Agent::MarkWhatIsUsed(const protocol::HostDescription& description) {
  auto marks = DataMarks(description.data, slot_.info.base);
  marks.push_back(SetUpMark(description, slot_.info));
  folder_use_.AlsoMark(std::move(marks));
}

// What is not committed leaves nothing: its set-up may run.
void Agent::RemoveFolder(std::function<void(const std::string& left)> done) {
  deployment_.End([this, done = std::move(done)] { folder_use_.Remove(done); });
}

void Agent::OnLeaving() {
  membership_.member().Leave();
  shared_logs_.Finish();
}

void Agent::OnNews() {
  sessions_.PumpStreams();
  if (!membership_.EndIsWritten() || std::exchange(name_freed_, true)) return;
  FreeName();
  farewell_.Begin();
}

// From now on the job's name is free: readers may keep this agent for a while. On the files'
// thread, as the lock may lie on a file server.
void Agent::FreeName() {
  files_.Post([fd = keeper_.name_lock_fd()] { flock(fd, LOCK_UN); }, [](Outcome<void>&) {});
}

Contact Agent::FindContact() const {
  const bool committed = membership_.committed();
  const auto silence = committed ? membership_.member().silence() : commit_watch_.silence();
  return {.committed = committed,
          .over = membership_.over(),
          .clear = membership_.member().clear(),
          .attended = sessions_.size() > 1,
          .silence_ms = std::chrono::duration_cast<std::chrono::milliseconds>(silence).count()};
}

}  // namespace tfdist::agent

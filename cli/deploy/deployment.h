// Brings every host of a plan to "ready" and commits the job: all hosts, or none.
//
//   each host     connect, agent, names; where a host has an alias, or tasks read data -> asked
//   each host     files, task descriptions                   -> prepared
//   slot 0        allow-list of all agents' keys             -> listening
//   other slots   agent reaches the coordinator              -> connected
//   each host     large files, task descriptions             -> equipped
//   slot 0        plan                                       -> settled: the job exists, or not
//
// One thread a host; a Gate after each row. While a host waits for the others its link is kept
// alive. A rehearsal does all of it but the last row, and is rolled back. Files of less than 8 MiB go to each host in the first row. More go to slot 0 alone, in the
// fourth, and the other hosts get them from slot 0 as they come; a host that does not is sent them
// from here.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cli/deploy/data_parts.h"
#include "cli/deploy/file_upload.h"
#include "cli/deploy/gate.h"
#include "cli/deploy/host_addresses.h"
#include "cli/deploy/image_parts.h"
#include "cli/deploy/machines.h"
#include "cli/deploy/name_check.h"
#include "cli/deploy/packed_file.h"
#include "cli/deploy/set_up_output.h"
#include "cli/deploy/step_times.h"
#include "cli/deploy/workdir_parts.h"
#include "cli/job/connector.h"
#include "cli/plan/plan.h"
#include "wire/file_fetch.h"
#include "wire/host_check.h"
#include "wire/kept_files.h"
#include "wire/protocol.h"
#include "wire/refusal.h"
#include "wire/shared_folder.h"

namespace tfdist::cli {

// What is sent to each host; made once, read by all threads.
struct Cargo {
  protocol::JobPlan job;
  std::string secret;  // of the job; never shown
  std::unique_ptr<WorkdirParts> workdir;
  std::optional<PackedFile> runtime;
  std::optional<PackedFile> cuda_runtime;
  std::optional<protocol::SetUpDescription> set_up;
  std::optional<protocol::KeptClaim> kept;          // where a task names {keep}
  std::vector<std::unique_ptr<DataParts>> data;     // that tasks name and that is sent
  std::vector<std::unique_ptr<ImageParts>> images;  // of tasks, those of this machine
  std::function<void()> before_commit;  // the first host may begin the job after it; throws Error
};

// How far files have come to the hosts.
struct FilesSent {
  uint64_t bytes = 0;       // of content, on all hosts together
  uint64_t bytes_done = 0;  // from here, or from slot 0
  uint64_t wire_bytes = 0;  // sent from here until now: compressed
  size_t hosts = 0;         // that lacked any
  size_t hosts_done = 0;
};

// {keep} of a host, as it was when the job came there.
struct KeptOnHost {
  std::string host;
  protocol::KeptFiles files;
  protocol::KeptBy by = {};
};

class Deployment {
 public:
  // Borrows `plan` and `cargo` until the destructor has returned. Starts at once. `rehearsed_for`: the id of a running job
  // that ends before this one begins, so that its ports count as free: nothing is committed; empty: no rehearsal.
  Deployment(const Plan& plan, const Cargo& cargo, std::string rehearsed_for = {});
  // Waits for the hosts' threads: at most their deadlines.
  ~Deployment();

  // Rolls every host back. Any thread.
  void Cancel();
  // A host says that another machine's `down` has ended the job: every host is rolled back.
  [[nodiscard]] bool IsEnded() const { return ended_; }
  // The job is being committed, which cannot be rolled back. The result will be known soon.
  [[nodiscard]] bool Committing() const { return committing_; }
  // Readable once all threads are through.
  [[nodiscard]] int DoneFd() const { return done_fd_.get(); }
  // True once a host may hold something of this job and has not confirmed that it was removed.
  [[nodiscard]] std::vector<std::string> HostsNotRolledBack() const;
  // "upload" -> hosts that are at it; for a progress line.
  [[nodiscard]] std::map<std::string, std::vector<std::string>> Busy() const;

  // What hosts have written so far of the images that they pull now, all together. Any thread.
  [[nodiscard]] uint64_t PulledBytes() const;
  // Any thread. Hosts are counted once they have said what they lack.
  [[nodiscard]] FilesSent Sent() const;

  // Lines of the hosts' set-up commands that have come since the last call. Any thread.
  [[nodiscard]] std::vector<std::string> TakeSetUpLines() { return set_up_output_.Take(); }

  // Why a host could not be brought up.
  struct Failure {
    Error error;
    std::optional<protocol::RefusalKind> refusal;  // the agent's answer, if it was one
    bool lost = false;                             // the connection broke instead
    bool unreachable = false;                      // there was none
  };

  // After DoneFd became readable.
  struct Outcome {
    bool committed = false;
    bool ended = false;     // IsEnded()
    bool in_doubt = false;  // slot 0 was asked to commit, and it is not known whether it did
    std::vector<Failure> failures;        // why hosts could not be brought up, with their hosts
    std::vector<Error> roll_back_errors;  // of what is not confirmed to be removed again
    // On slot 0's host, else on the first one that says so.
    std::optional<protocol::NameTaken> name_taken;
    size_t taken_slot = 0;              // of that host
    std::vector<std::string> bases;     // tfdist's folder on each host; where known
    std::vector<std::string> base_ids;  // its id (KnownBase)
    std::vector<std::string> removed;   // "gpu07: /home/u/...": what retention has removed there
    std::string addresses;              // AddressesText; empty also where hosts were not asked
    std::vector<NameWarning> warnings;  // of hosts' names, and what the hosts say of themselves
    std::vector<NameWarning> warnings_of_shared;
    std::vector<KeptOnHost> kept;  // where tasks name {keep}
    std::vector<std::vector<StepTimes::Spent>>
        spent;             // on each host, without what it waited for others
    Attached coordinator;  // when committed
  };
  [[nodiscard]] Outcome TakeOutcome();

 private:
  struct Host {
    Attached attached;
    std::string base_id;  // of the folder there that its agent is in (KnownBase)
    std::optional<Failure> failure;
    std::optional<Error> roll_back_error;
    std::optional<protocol::NameTaken> name_taken;
    std::vector<std::string> removed;  // folders of finished jobs
    std::optional<protocol::ResolvedNames> names;
    std::vector<protocol::Trouble> troubles;  // that may end the job later
    std::optional<KeptOnHost> kept;
    std::vector<protocol::ImageOnHost> images;  // of its tasks
    // Slot 0's is written before `prepared_` opens, and read by the others after that.
    std::optional<protocol::SharedFolder> shared;
    protocol::HostDescription description;             // until the host has it
    std::vector<protocol::FileDescription> missing;    // files, as the host has said
    std::vector<protocol::WantedImage> images_wanted;  // that are sent where they are lacking
    std::vector<std::string> lacks;  // keys of data: what it has answered before `prepared_` opens
    std::string not_from_first;      // why they came from here; empty: they did not
    StepTimes steps;
    std::atomic<uint64_t> pulled_bytes = 0;  // of the image that it pulls now
    std::atomic<bool> has_data = false;
    std::atomic<bool> failed = false;
    std::atomic<bool> touched = false;  // something of the job may be there
    std::thread thread;
  };

  void ShutGates();
  void Run(int slot);
  void FailToBegin(int slot, const std::string& why);
  void Finish();
  void BringUp(int slot);
  // The steps; each throws Error.
  void StartOnHost(int slot);
  [[nodiscard]] bool HandsOn() const;
  [[nodiscard]] std::vector<protocol::FileDescription> RuntimesOfCargo() const;
  void AddRuntimesOfOthers(std::vector<protocol::FileDescription>& wanted) const;
  void AskWhatIsMissing(int slot);
  [[nodiscard]] std::vector<SentParts*> AllParts() const;
  [[nodiscard]] std::set<std::string> DataKeysFor(int slot) const;
  [[nodiscard]] std::vector<protocol::WantedImage> ImagesFor(int slot) const;
  void AskWhatIsLacking(int slot);
  [[nodiscard]] SentParts& PartsOf(const std::string& key) const;
  protocol::DataState AskForData(Host& host, const std::vector<std::string>& keys,
                                 const std::vector<protocol::DataOffer>& offers);
  [[nodiscard]] std::vector<protocol::DataOffer> OffersOf(const std::set<std::string>& keys,
                                                          Host& host);
  void OfferData(int slot);
  // False: nobody gets through the next gate.
  bool UnpackData(int slot);
  void HaveUnpacked(Host& host);
  bool AwaitData(const Host& first, Host& host);
  void Equip(int slot);
  void BringFiles(int slot);
  void SendFiles(Host& host);
  // False: they did not come, and the host is to get them from here.
  bool FetchFiles(Host& host);
  protocol::Fetched WatchFetch(Host& host);
  void AddFilesFromHere(std::vector<NameWarning>& warnings) const;
  const PackedFile& PackOf(FileUpload& upload, const std::string& sha256);
  void PullImages(Host& host, const protocol::HostDescription& description);
  void Describe(int slot);
  void LookAtKept(int slot);
  void TakeKept(int slot, KeptOnHost kept);
  void CheckImages() const;
  // Why a port is not free yet, when it is done; empty: all are.
  std::string AwaitSetUp(int slot);
  void AwaitPorts(Host& host, std::string why);
  void AskForNames(int slot);
  [[nodiscard]] std::vector<std::optional<protocol::ResolvedNames>> NamesThere() const;
  // Once all hosts have said what names mean there, and which machine they are.
  void CompareHosts();
  // Throws Error where the others cannot reach this one.
  void TakeAddress(int slot);
  [[nodiscard]] protocol::Json SharedBody() const;
  void MarkShared(Host& host);
  void FindMark(Host& host);
  void UnmarkShared(Host& host);
  // What a machine must have for all of its slots together: ports, and room; and data, those that have one folder there.
  [[nodiscard]] const SlotsOfMachine& SlotsBeside(int slot) const;
  [[nodiscard]] std::vector<int> SlotsWithOneFolder(int slot) const;
  void CheckPorts(int slot) const;
  void CheckRoom(int slot);
  void OpenToPeers(Host& host);
  void DialCoordinator(Host& host);
  void Commit(Host& host);
  void CommitAgain(Host& host, const protocol::JobPlan& job);

  void ThrowIfCancelled() const;
  // A request. After a cancel the wait for its answer ends.
  protocol::Json Ask(Host& host, std::string_view type, protocol::Json body,
                     std::chrono::milliseconds limit);
  // Runs `step` unless the host has failed, reports the result to `gate`, waits for the other
  // hosts. False: the deployment is off.
  template <typename Step>
  bool Pass(Gate& gate, int slot, const char* name, Step step);
  bool WaitAt(Gate& gate, int slot);
  void Fail(int slot, const std::exception& error);
  void AddTroubles(std::vector<NameWarning>& warnings) const;
  [[nodiscard]] std::optional<size_t> FirstTaken() const;
  [[nodiscard]] bool SaysTheSameAsTheFirst(const Host& host) const;
  void RollBack(int slot);
  // What could not be removed there; empty: nothing is left. Throws Error.
  std::string Abort(int slot);
  std::string AbortOverAnotherConnection(int slot);
  // Enough of one to attach to the job.
  [[nodiscard]] JobRecord RecordOf(const Host& host) const;
  // `left`: what an agent that was rolled back could not remove, or empty.
  void ReportLeft(int slot, const std::string& left);
  [[nodiscard]] protocol::HostDescription DescriptionOf(int slot) const;
  [[nodiscard]] std::optional<protocol::SetUpDescription> SetUpOn(int slot) const;

  [[nodiscard]] bool is_rehearsal() const { return !rehearsed_for_.empty(); }

  const Plan& plan_;
  const Cargo& cargo_;
  const std::string rehearsed_for_;
  std::vector<std::unique_ptr<Host>> hosts_;  // index = slot
  std::once_flag choice_;
  // As `choice_` has made them.
  std::vector<HostAddress> addresses_;  // index = slot
  std::vector<SlotsOfMachine> machines_;
  Gate asked_;  // only where all hosts answer before any gets a file
  Gate prepared_;
  Gate listening_;
  Gate connected_;
  Gate equipped_;
  Gate settled_;  // never cancelled: a commit is waited for
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> ended_ = false;
  std::atomic<bool> committing_ = false;
  std::atomic<bool> committed_ = false;
  std::atomic<bool> in_doubt_ = false;
  std::atomic<size_t> running_;
  const bool has_aliases_;
  const bool asks_first_;                       // and then sends files
  const bool hands_on_;                         // large files, from slot 0 to the others
  std::atomic<bool> first_is_through_ = false;  // slot 0 has all files
  std::atomic<bool> first_has_failed_ = false;  // it will not get them
  // As FilesSent has them.
  std::atomic<uint64_t> to_send_ = 0;
  std::atomic<uint64_t> sent_ = 0;
  std::atomic<uint64_t> wire_ = 0;
  std::atomic<size_t> lacking_ = 0;
  std::atomic<size_t> supplied_ = 0;
  SetUpOutput set_up_output_;
  const std::string mark_;      // in the name of the file by which a shared folder is known again
  protocol::Json coordinator_;  // answer to `peers`; written before `listening_` opens, read after
  UniqueFd done_fd_;            // eventfd
};

}  // namespace tfdist::cli

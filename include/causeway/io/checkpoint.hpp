// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_CHECKPOINT_HPP
#define CAUSEWAY_IO_CHECKPOINT_HPP

// The checkpoints of one peer in one folder: `step-00001234.ckpt`. A new one is durable before an older one is removed, and
// `keep` generations stay, so that a file which the disk lost still leaves the one before. Only files that were written
// without an error and were not found damaged count as generations. One process per folder.

#include <causeway/core/result.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/io/storage.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

/// The file name of a step: eight digits at least, so that names sort like steps for a person.
CAUSEWAY_DECL std::string checkpoint_name(std::uint64_t step);

/// The step of a file name, if it is one of ours.
CAUSEWAY_DECL std::optional<std::uint64_t> checkpoint_step(std::string_view name);

/// What `load_newest` found.
struct loaded_checkpoint {
  section_file file;
  std::string note;  ///< empty, or a sentence for the log: which newer files were passed over, and why
};

/// Not safe to share between threads.
template <Storage S>
class checkpoint_directory {
 public:
  explicit checkpoint_directory(S storage, std::string directory, unsigned keep = 2)
      : storage_{std::move(storage)}, directory_{std::move(directory)}, keep_{std::max(keep, 1U)} {}

  /// Writes the checkpoint of `step`, durable on return, then removes what is too old. An error leaves the older ones as
  /// they were: errc::disk_full, errc::io_failed, errc::invalid_argument (two sections of one name). Trouble in removing
  /// older files is no error; they are tried again next time.
  result<void> save(std::uint64_t step, std::span<const section> sections, std::uint64_t run_id = 0) {
    const bool replaces = clean_up(checkpoint_name(step));
    const std::string name = checkpoint_name(step);
    auto written = storage_.write_atomic(path_of(name), [&](const byte_sink& sink) {
      return write_sections(sink, {run_id, step}, sections);
    });
    if (!written) {
      // A write that fails at its very end leaves a file that may be gone after a crash: it must not count, nor be seen by
      // a process that knows nothing of the failure.
      worthless_.insert(name);
      if (!replaces) (void)storage_.remove(path_of(name));
      return written;
    }
    forget(name);
    prune(step);
    return {};
  }

  result<void> save(std::uint64_t step, const std::vector<section>& sections, std::uint64_t run_id = 0) {
    return save(step, std::span<const section>{sections}, run_id);
  }

  /// The newest checkpoint that is whole. errc::not_found if there is none at all; errc::corrupt if none is whole, with
  /// names and reasons.
  result<loaded_checkpoint> load_newest();

  /// The checkpoint of `step`, verified.
  result<section_file> load(std::uint64_t step) { return load_file(checkpoint_name(step)); }

  /// Steps with a file, oldest first; not verified. A folder that is not there has none.
  result<std::vector<std::uint64_t>> steps();

  /// Removes the checkpoints after `step`: for a run that goes back and will write those steps anew.
  result<void> discard_after(std::uint64_t step) {
    CAUSEWAY_ASSIGN(const std::vector<std::uint64_t> all, steps());
    for (const std::uint64_t s : all) {
      if (s > step) {
        CAUSEWAY_TRY(storage_.remove(path_of(checkpoint_name(s))));
        forget(checkpoint_name(s));
      }
    }
    return {};
  }

  [[nodiscard]] const std::string& directory() const noexcept { return directory_; }

 private:
  [[nodiscard]] std::string path_of(const std::string& name) const { return directory_ + '/' + name; }

  result<section_file> load_file(const std::string& name) {
    CAUSEWAY_ASSIGN(byte_vector content, storage_.read(path_of(name)));
    return section_file::parse(std::move(content), path_of(name));
  }

  void forget(const std::string& name) {
    worthless_.erase(name);
    unreadable_.erase(name);
  }
  bool clean_up(const std::string& next);
  void prune(std::uint64_t saved);

  S storage_;
  std::string directory_;
  unsigned keep_;
  // Files that do not count as generations.
  std::set<std::string> worthless_;   // torn, or not surely durable: they go with the next save
  std::set<std::string> unreadable_;  // perhaps only now: they go when they are too old
};

template <Storage S>
result<std::vector<std::uint64_t>> checkpoint_directory<S>::steps() {
  auto names = storage_.list(directory_);
  if (!names && names.error().code == errc::not_found) return std::vector<std::uint64_t>{};
  if (!names) return std::move(names).error();
  std::vector<std::uint64_t> found;
  for (const std::string& name : *names) {
    if (const auto step = checkpoint_step(name)) found.push_back(*step);
  }
  std::sort(found.begin(), found.end());
  return found;
}

template <Storage S>
result<loaded_checkpoint> checkpoint_directory<S>::load_newest() {
  CAUSEWAY_ASSIGN(std::vector<std::uint64_t> found, steps());
  if (found.empty()) {
    return fail(errc::not_found, directory_,
                "there is no checkpoint here. Start a new run, or give the folder of an old one");
  }
  std::string passed_over;
  for (auto step = found.rbegin(); step != found.rend(); ++step) {
    const std::string name = checkpoint_name(*step);
    auto file = load_file(name);
    if (file) {
      unreadable_.erase(name);
      if (!passed_over.empty()) passed_over = "went back to " + path_of(name) + ", because " + passed_over;
      return loaded_checkpoint{std::move(file).value(), std::move(passed_over)};
    }
    // A file from a newer library is whole: silently going back behind it would lose work.
    if (file.error().code == errc::version_mismatch) return std::move(file).error();
    (file.error().code == errc::corrupt ? worthless_ : unreadable_).insert(name);
    passed_over += (passed_over.empty() ? "" : "; ") + file.error().text();
  }
  return fail(errc::corrupt, directory_,
              "no checkpoint here is whole. Start anew, or fetch the state from another peer: " + passed_over);
}

/// Removes half-written files that a dead process left: they are of no use, and may take the space that the next file
/// needs. Says whether `next` is there already.
template <Storage S>
bool checkpoint_directory<S>::clean_up(const std::string& next) {
  const auto names = storage_.list(directory_);
  if (!names) return names.error().code != errc::not_found;  // it may be there
  for (const std::string& name : *names) {
    if (name.starts_with("step-") && name.ends_with(".tmp")) (void)storage_.remove(path_of(name));
  }
  std::erase_if(worthless_,
                [&](const std::string& name) { return !std::binary_search(names->begin(), names->end(), name); });
  return std::binary_search(names->begin(), names->end(), next);
}

template <Storage S>
void checkpoint_directory<S>::prune(std::uint64_t saved) {
  const auto found = steps();
  if (!found) return;
  unsigned wanted = keep_ - 1;  // beside the one just saved
  for (auto step = found->rbegin(); step != found->rend(); ++step) {
    const std::string name = checkpoint_name(*step);
    if (*step == saved) continue;
    if (wanted == 0 || worthless_.contains(name)) {
      if (storage_.remove(path_of(name))) forget(name);
    } else if (!unreadable_.contains(name)) {
      --wanted;
    }
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

#ifndef CAUSEWAY_COMPILED
#include <causeway/io/impl/checkpoint.ipp>
#endif

#endif  // CAUSEWAY_IO_CHECKPOINT_HPP

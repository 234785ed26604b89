// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_ROUND_STORE_HPP
#define CAUSEWAY_MEMBERSHIP_ROUND_STORE_HPP

// The shared state of the newest rounds on this peer's disk: what a vote promises to keep. A file per round, whole or
// absent, as io/checkpoint.hpp makes them.

#include <causeway/core/result.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/io/section.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/membership/durable_record.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Not safe to share between threads. `keep` rounds stay: a candidate must never cost the committed round before it.
class round_store {
 public:
  round_store(io::any_storage storage, std::string folder, unsigned keep = 2)
      : files_{std::move(storage), std::move(folder), keep} {}

  /// Durable on return. `parts` are the shared state of `round`, named by `hash`; `record` says what led to it, as an
  /// encoded durable_record, so that a run can be founded anew on this round when later ones are lost. Empty: not known.
  result<void> save(std::uint64_t run, std::uint64_t round, std::uint64_t hash, std::span<const std::span<std::byte>> parts,
                    std::span<const std::byte> record = {}) {
    std::vector<io::section> sections;
    const std::uint64_t name = hash;
    sections.emplace_back("hash", 1, std::as_bytes(std::span{&name, 1}));
    if (!record.empty()) sections.emplace_back("record", 1, record);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      sections.emplace_back(part_name(i), 1, std::span<const std::byte>{parts[i]});
    }
    return files_.save(round, sections, run);
  }

  /// Rounds with a file, oldest first; not verified.
  result<std::vector<std::uint64_t>> rounds() { return files_.steps(); }

  /// The records of the stored rounds that have one and are whole, newest first.
  std::vector<durable_record> records() {
    std::vector<durable_record> found;
    auto stored = rounds();
    if (!stored) return found;
    std::reverse(stored->begin(), stored->end());
    for (const std::uint64_t round : *stored) {
      const auto file = files_.load(round);
      if (!file) continue;
      const auto view = file->find("record");
      std::uint64_t name = 0;
      if (!view || !file->copy_to("hash", std::span{&name, 1})) continue;
      auto record = decode_durable_record(view->bytes);
      const bool fits = record && record->newest && record->newest->round == round && record->newest->state == name;
      if (fits) found.push_back(std::move(*record));
    }
    return found;
  }

  /// Puts the state of `round` that is named `hash` into `parts`. errc::corrupt and errc::not_found as io/checkpoint.hpp,
  /// also where another state is stored for the round; errc::wrong_model if the parts have other sizes. On an error the
  /// parts are as they were.
  result<void> load(std::uint64_t round, std::uint64_t hash, std::span<const std::span<std::byte>> parts) {
    CAUSEWAY_ASSIGN(const io::section_file file, files_.load(round));
    std::uint64_t stored = 0;
    CAUSEWAY_TRY(file.copy_to("hash", std::span{&stored, 1}));
    if (stored != hash) return fail(errc::not_found, files_.directory(), "another state of this round is stored");
    std::vector<std::span<const std::byte>> found;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto view = file.find(part_name(i));
      if (!view || view->bytes.size() != parts[i].size()) {
        return fail(errc::wrong_model, files_.directory(),
                    "the stored round is of another model or other policies; use the settings that it was made with, or "
                    "another folder");
      }
      found.push_back(view->bytes);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) std::copy(found[i].begin(), found[i].end(), parts[i].begin());
    return {};
  }

  /// Saves the state named `hash` that another store has, for whichever round, as that of `round` of `run`. Only what is
  /// whole is taken. errc::not_found if it is not there.
  result<void> take_over(round_store& other, std::uint64_t hash, std::uint64_t run, std::uint64_t round) {
    CAUSEWAY_ASSIGN(auto stored, other.rounds());
    std::reverse(stored.begin(), stored.end());
    for (const std::uint64_t candidate : stored) {
      const auto file = other.files_.load(candidate);
      std::uint64_t name = 0;
      if (!file || !file->copy_to("hash", std::span{&name, 1}) || name != hash) continue;
      std::vector<io::section> sections;
      sections.emplace_back("hash", 1, std::as_bytes(std::span{&hash, 1}));
      for (std::size_t i = 0;; ++i) {
        const auto view = file->find(part_name(i));
        if (!view) break;
        sections.emplace_back(part_name(i), 1, std::span<const std::byte>{view->bytes});
      }
      return files_.save(round, sections, run);
    }
    return fail(errc::not_found, other.files_.directory(),
                "the state of round " + std::to_string(round) + " is not stored here");
  }

 private:
  static std::string part_name(std::size_t i) { return "shared." + std::to_string(i); }

  io::checkpoint_directory<io::any_storage> files_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_ROUND_STORE_HPP

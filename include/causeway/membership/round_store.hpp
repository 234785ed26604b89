// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_ROUND_STORE_HPP
#define CAUSEWAY_MEMBERSHIP_ROUND_STORE_HPP

// The shared state of the newest rounds on this peer's disk: what a vote promises to keep. A file per round, whole or
// absent, as io/checkpoint.hpp makes them.

#include <causeway/core/result.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/membership/durable_record.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// Not safe to share between threads. `keep` rounds stay: a candidate must never cost the committed round before it.
class round_store {
 public:
  CAUSEWAY_DECL round_store(io::any_storage storage, std::string folder, unsigned keep = 2);

  /// Durable on return. `parts` are the shared state of `round`, named by `hash`; `record` says what led to it, as an
  /// encoded durable_record, so that a run can be founded anew on this round when later ones are lost. Empty: not known.
  /// `own` is what only this peer has, beside it.
  CAUSEWAY_DECL result<void> save(std::uint64_t run, std::uint64_t round, std::uint64_t hash,
                                  std::span<const std::span<std::byte>> parts, std::span<const std::byte> record = {},
                                  std::span<const std::span<std::byte>> own = {});

  /// Rounds with a file, oldest first; not verified.
  CAUSEWAY_DECL result<std::vector<std::uint64_t>> rounds();

  /// The records of the stored rounds that have one and are whole, newest first.
  CAUSEWAY_DECL std::vector<durable_record> records();

  /// Puts the state of `round` that is named `hash` into `parts`. errc::corrupt and errc::not_found as io/checkpoint.hpp,
  /// also where another state is stored for the round; errc::wrong_model if the parts have other sizes. On an error the
  /// parts are as they were. `own` is left as it is where it is not stored.
  CAUSEWAY_DECL result<void> load(std::uint64_t round, std::uint64_t hash, std::span<const std::span<std::byte>> parts,
                                  std::span<const std::span<std::byte>> own = {});

  /// Saves the state named `hash` that another store has, for whichever round, as that of `round` of `run`. Only what is
  /// whole is taken. errc::not_found if it is not there.
  CAUSEWAY_DECL result<void> take_over(round_store& other, std::uint64_t hash, std::uint64_t run, std::uint64_t round);

 private:
  static std::string part_name(std::size_t i) { return "shared." + std::to_string(i); }
  static std::string own_name(std::size_t i) { return "own." + std::to_string(i); }
  using pieces = std::vector<std::span<const std::byte>>;
  // None where one of them is missing or has another size.
  CAUSEWAY_DECL static std::optional<pieces> find(const io::section_file& file, std::string (*name)(std::size_t),
                                                  std::span<const std::span<std::byte>> like);
  CAUSEWAY_DECL static void put(const pieces& found, std::span<const std::span<std::byte>> parts);

  io::checkpoint_directory<io::any_storage> files_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/round_store.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_ROUND_STORE_HPP

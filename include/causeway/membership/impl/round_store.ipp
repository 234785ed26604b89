// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_ROUND_STORE_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_ROUND_STORE_IPP

#include <causeway/membership/round_store.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL round_store::round_store(io::any_storage storage, std::string folder, unsigned keep)
    : files_{std::move(storage), std::move(folder), keep} {}

CAUSEWAY_DECL result<std::vector<std::uint64_t>> round_store::rounds() { return files_.steps(); }

CAUSEWAY_DECL result<void> round_store::save(std::uint64_t run, std::uint64_t round, std::uint64_t hash,
                                             std::span<const std::span<std::byte>> parts, std::span<const std::byte> record,
                                             std::span<const std::span<std::byte>> own) {
  std::vector<io::section> sections;
  const std::uint64_t name = hash;
  sections.emplace_back("hash", 1, std::as_bytes(std::span{&name, 1}));
  if (!record.empty()) sections.emplace_back("record", 1, record);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sections.emplace_back(part_name(i), 1, std::span<const std::byte>{parts[i]});
  }
  for (std::size_t i = 0; i < own.size(); ++i) {
    sections.emplace_back(own_name(i), 1, std::span<const std::byte>{own[i]});
  }
  return files_.save(round, sections, run);
}

CAUSEWAY_DECL std::vector<durable_record> round_store::records() {
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

CAUSEWAY_DECL result<void> round_store::load(std::uint64_t round, std::uint64_t hash,
                                             std::span<const std::span<std::byte>> parts,
                                             std::span<const std::span<std::byte>> own) {
  CAUSEWAY_ASSIGN(const io::section_file file, files_.load(round));
  std::uint64_t stored = 0;
  CAUSEWAY_TRY(file.copy_to("hash", std::span{&stored, 1}));
  if (stored != hash) return fail(errc::not_found, files_.directory(), "another state of this round is stored");
  const auto shared = find(file, part_name, parts);
  if (!shared) {
    return fail(errc::wrong_model, files_.directory(),
                "the stored round is of another model or other policies; use the settings that it was made with, or "
                "another folder");
  }
  put(*shared, parts);
  if (const auto beside = find(file, own_name, own)) put(*beside, own);
  return {};
}

CAUSEWAY_DECL std::optional<round_store::pieces> round_store::find(const io::section_file& file,
                                                                   std::string (*name)(std::size_t),
                                                                   std::span<const std::span<std::byte>> like) {
  pieces found;
  for (std::size_t i = 0; i < like.size(); ++i) {
    const auto view = file.find(name(i));
    if (!view || view->bytes.size() != like[i].size()) return std::nullopt;
    found.push_back(view->bytes);
  }
  return found;
}

CAUSEWAY_DECL void round_store::put(const pieces& found, std::span<const std::span<std::byte>> parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) std::copy(found[i].begin(), found[i].end(), parts[i].begin());
}

CAUSEWAY_DECL result<void> round_store::take_over(round_store& other, std::uint64_t hash, std::uint64_t run,
                                                  std::uint64_t round) {
  CAUSEWAY_ASSIGN(auto stored, other.rounds());
  std::reverse(stored.begin(), stored.end());
  for (const std::uint64_t candidate : stored) {
    const auto file = other.files_.load(candidate);
    std::uint64_t name = 0;
    if (!file || !file->copy_to("hash", std::span{&name, 1}) || name != hash) continue;
    std::vector<io::section> sections;
    sections.emplace_back("hash", 1, std::as_bytes(std::span{&hash, 1}));
    for (auto* const piece : {part_name, own_name}) {
      for (std::size_t i = 0;; ++i) {
        const auto view = file->find(piece(i));
        if (!view) break;
        sections.emplace_back(piece(i), 1, std::span<const std::byte>{view->bytes});
      }
    }
    return files_.save(round, sections, run);
  }
  return fail(errc::not_found, other.files_.directory(),
              "the state of round " + std::to_string(round) + " is not stored here");
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_ROUND_STORE_IPP

// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_LINK_TABLE_IPP
#define CAUSEWAY_SIM_IMPL_LINK_TABLE_IPP

#include <causeway/sim/link_table.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL std::optional<std::uint32_t> link_table::index_of(std::string_view region) const {
  const auto found = std::find(regions_.begin(), regions_.end(), region);
  if (found == regions_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - regions_.begin());
}

CAUSEWAY_DECL const region_link* link_table::find(std::uint32_t from, std::uint32_t to) const {
  const auto found = links_.find({from, to});
  return found == links_.end() ? nullptr : &found->second;
}

CAUSEWAY_DECL result<link_table> link_table::parse(std::string_view text, const std::string& name) {
  link_table table;
  std::optional<columns> header;
  CAUSEWAY_TRY(text::for_each_line(text, name, [&](std::string_view line, const text::place& place) -> result<void> {
    if (header) return table.read_row(line, *header, place);
    CAUSEWAY_ASSIGN(header, read_header(line, place));
    return {};
  }));
  if (table.links_.empty()) return fail(errc::bad_text, name, "holds no links");
  return table;
}

CAUSEWAY_DECL result<link_table::columns> link_table::read_header(std::string_view line, const text::place& place) {
  const auto names = text::split(line, ',');
  const std::vector<std::string_view> wanted{"from", "to", "rtt_ms", "mbit_s", "jitter_ms", "loss"};
  columns header{names.size() < 3 || names[2] != "one_way_ms", names.size()};
  bool right = names.size() >= 4 && names.size() <= wanted.size();
  for (std::size_t i = 0; i < names.size() && right; ++i) right = names[i] == wanted[i] || (i == 2 && !header.round_trip);
  if (right) return header;
  return place.wrong("the first line must be \"from,to,rtt_ms,mbit_s[,jitter_ms[,loss]]\", or with one_way_ms");
}

CAUSEWAY_DECL result<std::uint32_t> link_table::region(std::string_view name, const text::place& place) {
  if (name.empty() || name.size() > 100) return place.wrong("a region needs a name of 1 to 100 bytes");
  if (const auto known = index_of(name)) return *known;
  if (regions_.size() == most_regions) return fail(errc::too_large, place.name, "more than 4,096 regions");
  regions_.emplace_back(name);
  return static_cast<std::uint32_t>(regions_.size() - 1);
}

CAUSEWAY_DECL result<void> link_table::read_row(std::string_view line, const columns& header, const text::place& place) {
  const auto fields = text::split(line, ',');
  if (fields.size() != header.count) {
    return place.wrong("has " + std::to_string(fields.size()) + " fields, the first line has " +
                       std::to_string(header.count));
  }
  CAUSEWAY_ASSIGN(const std::uint32_t from, region(fields[0], place));
  CAUSEWAY_ASSIGN(const std::uint32_t to, region(fields[1], place));
  region_link link{regions_[from], regions_[to]};
  CAUSEWAY_ASSIGN(const double latency, text::number_between(fields[2], 0, 1e6, place, "the latency in ms"));
  CAUSEWAY_ASSIGN(const double rate, text::number_between(fields[3], 1e-6, 1e9, place, "the rate in Mbit/s"));
  link.one_way = detail::from_seconds(latency / (header.round_trip ? 2e3 : 1e3));
  link.bytes_per_s = rate * 1e6 / 8;
  if (header.count > 4) {
    CAUSEWAY_ASSIGN(const double jitter, text::number_between(fields[4], 0, 1e6, place, "the jitter in ms"));
    link.jitter = detail::from_seconds(jitter / 1e3);
  }
  if (header.count > 5) {
    CAUSEWAY_ASSIGN(link.loss, text::number_between(fields[5], 0, 0.999, place, "the loss"));
  }
  const auto known = links_.find({from, to});
  if (known != links_.end() && !mirrored_[{from, to}]) return place.wrong("this pair has a link already");
  links_[{from, to}] = link;
  mirrored_[{from, to}] = false;
  if (links_.contains({to, from})) return {};
  std::swap(link.from, link.to);
  links_[{to, from}] = link;
  mirrored_[{to, from}] = true;
  return {};
}

CAUSEWAY_DECL std::vector<std::pair<std::string, std::string>> link_table::missing() const {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::uint32_t from = 0; from < regions_.size(); ++from) {
    for (std::uint32_t to = 0; to < regions_.size(); ++to) {
      if (find(from, to) == nullptr) pairs.emplace_back(regions_[from], regions_[to]);
    }
  }
  return pairs;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_LINK_TABLE_IPP

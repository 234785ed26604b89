// SPDX-License-Identifier: Apache-2.0
#include "device_list.hpp"

#include <causeway/core/clock.hpp>
#include <causeway/core/table_text.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

namespace app {
namespace {

namespace text = causeway::text;
using causeway::errc;
using causeway::fail;

constexpr std::size_t most_devices = 1024;

causeway::result<void> add_row(std::string_view line, std::size_t columns, const text::place& place, device_list& all) {
  const auto fields = text::split(line, ',');
  if (fields.size() != columns) {
    return place.wrong("has " + std::to_string(fields.size()) + " fields, the first line has " + std::to_string(columns));
  }
  if (fields[0].empty() || fields[1].empty()) return place.wrong("a device needs a name and a region");
  CAUSEWAY_ASSIGN(const double speed, text::number_between(fields[2], 1e-6, 1e6, place, "the speed in Tflop/s"));
  CAUSEWAY_ASSIGN(const double memory, text::number_between(fields[3], 1e-3, 1e6, place, "the memory in GB"));
  std::size_t count = 1;
  if (columns > 4) {
    CAUSEWAY_ASSIGN(count, text::number_from<std::size_t>(fields[4], place, "the count"));
  }
  if (count == 0 || count > most_devices - all.names.size())
    return place.wrong("a count is at least 1, and all devices together at most " + std::to_string(most_devices));
  for (std::size_t i = 0; i < count; ++i) {
    all.names.push_back(std::string{fields[0]} + (count == 1 ? "" : "." + std::to_string(i)));
    all.regions.emplace_back(fields[1]);
    all.devices.push_back({speed * 1e12, memory * 1e9});
  }
  return {};
}

}  // namespace

causeway::result<device_list> parse_devices(std::string_view file, const std::string& name) {
  device_list all;
  std::size_t columns = 0;
  CAUSEWAY_TRY(
      text::for_each_line(file, name, [&](std::string_view line, const text::place& place) -> causeway::result<void> {
        if (columns != 0) return add_row(line, columns, place, all);
        const std::vector<std::string_view> wanted{"name", "region", "tflop_s", "memory_gb", "count"};
        const auto names = text::split(line, ',');
        columns = names.size();
        for (std::size_t i = 0; i < columns; ++i) {
          if (columns < 4 || columns > 5 || names[i] != wanted[i])
            return place.wrong("the first line must be \"name,region,tflop_s,memory_gb[,count]\"");
        }
        return {};
      }));
  if (all.names.empty()) return fail(errc::bad_text, name, "holds no devices; a row is: a100,Oregon,120,80,8");
  return all;
}

causeway::result<causeway::plan::link_matrix> links_between(const device_list& all,
                                                            const causeway::sim::link_table& table) {
  std::vector<std::uint32_t> region(all.names.size());
  for (std::size_t i = 0; i < region.size(); ++i) {
    const auto found = table.index_of(all.regions[i]);
    if (!found) return fail(errc::not_found, all.names[i], "stands in " + all.regions[i] + ", which the link table lacks");
    region[i] = *found;
  }
  causeway::plan::link_matrix links{region.size()};
  for (std::size_t i = 0; i < region.size(); ++i) {
    for (std::size_t j = 0; j < region.size(); ++j) {
      if (i == j) continue;
      const causeway::sim::region_link* l = table.find(region[i], region[j]);
      if (l == nullptr) {
        return fail(errc::not_found, "link table", "has no row for " + all.regions[i] + "," + all.regions[j]);
      }
      links.set(i, j, {std::chrono::duration<double>(l->one_way).count(), 8 * l->bytes_per_s});
    }
  }
  return links;
}

}  // namespace app

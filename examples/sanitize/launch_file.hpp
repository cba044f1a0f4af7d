// Writes launch files of `bsr sanitize`: what both captures share. A `Memory` says where buffers lie and what they hold.
#pragma once
#include <cuda.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace launch_file {

using Address = unsigned long long;
using Bytes = std::vector<unsigned char>;

inline std::string setting(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value ? value : otherwise;
}

template <class T>
std::string list(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + std::to_string(value);
  return text + "]";
}

struct Area {
  Address start;
  size_t bytes;
  std::string name;
};

class Memory {
 public:
  virtual ~Memory() = default;
  // The allocation that an address is in, if it is one.
  virtual const Area* area_of(Address address) = 0;
  virtual Bytes read(const Area& area) = 0;
  // Whether kernels run, so that zeros are values and not what a kernel would have filled.
  virtual bool is_filled() const = 0;
};

// Tensor maps are known by their 128 bytes, which are found again in parameters, structures and memory.
struct TensorMap {
  CUtensorMapDataType type;
  Address address;
  std::vector<Address> dims, strides;
  std::vector<unsigned> box, steps;
  int swizzle;
  bool fill_nan;
  // Of im2col mode, whose box is channels per pixel and pixels per column.
  std::vector<int> lower, upper;
};

using Encoded = std::array<unsigned char, sizeof(CUtensorMap)>;
inline std::map<Encoded, TensorMap>& tensor_maps() { static std::map<Encoded, TensorMap> all; return all; }

inline void remember(const CUtensorMap* map, const TensorMap& description) {
  Encoded encoded;
  memcpy(encoded.data(), map, encoded.size());
  tensor_maps()[encoded] = description;
}

// The type of a tensor map's elements.
inline const char* element(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return "u8";
    case CU_TENSOR_MAP_DATA_TYPE_UINT16: return "u16";
    case CU_TENSOR_MAP_DATA_TYPE_UINT32: return "u32";
    case CU_TENSOR_MAP_DATA_TYPE_INT32: return "i32";
    case CU_TENSOR_MAP_DATA_TYPE_UINT64: return "u64";
    case CU_TENSOR_MAP_DATA_TYPE_INT64: return "i64";
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: return "f16";
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return "bf16";
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return "f64";
    default: return "f32";
  }
}

inline size_t width(const std::string& type) {
  const size_t digit = type.find_first_of("123468");
  return std::stoul(type.substr(digit)) / 8;
}

struct Sizes {
  unsigned x, y, z;
  std::string text() const { return list(std::vector<unsigned>{x, y, z}); }
};

struct Launch {
  std::string kernel;
  Sizes grid, block, cluster;
  size_t shared;
  bool dependent;
  std::vector<Bytes> params;
};

class Writer {
 public:
  explicit Writer(Memory& memory) : memory(memory) {}

  // Describes a launch, and writes what its buffers hold into the folder.
  void before(const std::string& folder, const Launch& launch, const std::string& comment) {
    where = folder;
    for (const Bytes& param : launch.params) {
      params << "\n[[params]]  # " << param.size() << " bytes\nfields = [\n";
      for (const auto& one : fields(param)) params << "  " << one << ",\n";
      params << "]\n";
    }
    buffers();
    head << comment << "entry = \"" << launch.kernel << "\"\ngrid = " << launch.grid.text() << "\ncluster = " << launch.cluster.text()
         << "\nblock = " << launch.block.text() << "\nshared = " << launch.shared << (launch.dependent ? "\ndependent = true\n" : "\n");
  }

  // Compares what the buffers hold now with what they held, and writes what has changed.
  void after() {
    for (Buffer& buffer : described) {
      const Bytes now = memory.read(buffer.area);
      const std::string name = buffer.area.name + "_after";
      buffer.after = now == buffer.bytes ? "unchanged" : name + ".npy";
      if (now != buffer.bytes) npy(where + "/" + name + ".npy", buffer.type, now);
    }
  }

  // FOLDER/launch.toml.
  void finish() const {
    std::ofstream file(where + "/launch.toml");
    file << head.str();
    for (const Buffer& buffer : described) {
      file << buffer.text;
      if (!buffer.after.empty()) file << "after = \"" << buffer.after << "\"\n";
    }
    file << params.str();
  }

 private:
  // A buffer as the launch file describes it, and what it held.
  struct Buffer {
    Area area;
    std::string type, text, after;
    Bytes bytes;
  };

  // What lies in some bytes: tensor maps, addresses, and runs of other words.
  std::vector<std::string> fields(const Bytes& bytes) {
    std::vector<std::string> found;
    std::vector<unsigned> words;
    size_t first = 0;
    auto flush = [&] {
      size_t zeros = 0;
      while (!words.empty() && words.back() == 0) words.pop_back();
      while (zeros < words.size() && words[zeros] == 0) zeros++;
      words.erase(words.begin(), words.begin() + zeros);
      if (!words.empty()) found.push_back(field(first + 4 * zeros, "type = \"u32\", value = " + list(words)));
      words.clear();
    };
    for (size_t at = 0; at < bytes.size();) {
      const size_t left = bytes.size() - at;
      Address word = 0;
      memcpy(&word, &bytes[at], std::min<size_t>(8, left));
      const TensorMap* map = at % 64 == 0 ? tensor_map_at(bytes, at) : nullptr;
      const Area* area = at % 8 == 0 && left >= 8 ? memory.area_of(word) : nullptr;
      if (map) {
        flush();
        const std::string text = tensor_map(*map);
        if (!text.empty()) found.push_back(field(at, "tensor_map = " + text));
        at += sizeof(CUtensorMap);
      } else if (area) {
        flush();
        use(*area);
        found.push_back(field(at, "buffer = \"" + area->name + "\", offset = " + std::to_string(word - area->start)));
        at += 8;
      } else if (left >= 4) {
        if (words.empty()) first = at;
        words.push_back(static_cast<unsigned>(word));
        at += 4;
      } else {
        flush();
        found.push_back(field(at, "type = \"u8\", value = " + std::to_string(bytes[at])));
        at += 1;
      }
    }
    flush();
    return found;
  }

  // Every buffer that something points to, and those that their contents point to.
  void buffers() {
    for (size_t next = 0; next < used.size(); next++) {
      const Area area = used[next];
      const std::string type = types.count(area.name) ? types[area.name] : "u8";
      const Bytes bytes = memory.read(area);
      const bool zero = std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == 0; });
      std::ostringstream out;
      out << "\n[buffers." << area.name << "]\ntype = \"" << type << "\"\nshape = [" << area.bytes / width(type) << "]\nalign = 256\n";
      if (zero) {
        const bool drawn = !memory.is_filled() && (type[0] == 'f' || type[0] == 'b');
        if (drawn) out << "values = \"normal\"\nseed = " << next + 1 << "\n";
        else out << "values = 0\n";
      } else if (points(bytes)) {
        out << "values = 0\nfields = [\n";
        for (const auto& one : fields(bytes)) out << "  " << one << ",\n";
        out << "]\n";
      } else {
        out << "values = \"" << area.name << ".npy\"\n";
        npy(where + "/" + area.name + ".npy", type, bytes);
      }
      described.push_back({area, type, out.str(), "", bytes});
    }
  }

  // Whether some word of a buffer is an address or begins a tensor map.
  bool points(const Bytes& bytes) {
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      Address word;
      memcpy(&word, &bytes[at], 8);
      if (memory.area_of(word) || (at % 64 == 0 && tensor_map_at(bytes, at))) return true;
    }
    return false;
  }

  static const TensorMap* tensor_map_at(const Bytes& bytes, size_t at) {
    if (at + sizeof(CUtensorMap) > bytes.size()) return nullptr;
    Encoded encoded;
    memcpy(encoded.data(), &bytes[at], encoded.size());
    const auto found = tensor_maps().find(encoded);
    return found == tensor_maps().end() ? nullptr : &found->second;
  }

  static std::string field(size_t at, const std::string& what) {
    return "{ at = " + std::to_string(at) + ", " + what + " }";
  }

  void use(const Area& area) {
    if (names.insert(area.name).second) used.push_back(area);
  }

  std::string tensor_map(const TensorMap& map) {
    const Area* area = memory.area_of(map.address);
    if (!area) return "";
    use(*area);
    const std::string type = element(map.type);
    types.emplace(area->name, type);
    static const int spans[] = {0, 32, 64, 128};
    std::ostringstream out;
    out << "{ buffer = \"" << area->name << "\", offset = " << map.address - area->start << ", type = \"" << type
        << "\", dims = " << list(map.dims) << ", strides = " << list(map.strides) << ", box = " << list(map.box)
        << ", element_strides = " << list(map.steps) << ", swizzle = " << spans[map.swizzle & 3]
        << ", fill_nan = " << (map.fill_nan ? "true" : "false");
    if (!map.lower.empty()) out << ", im2col = { lower = " << list(map.lower) << ", upper = " << list(map.upper) << " }";
    out << " }";
    return out.str();
  }

  static void npy(const std::string& path, const std::string& type, const Bytes& bytes) {
    const size_t elements = bytes.size() / width(type);
    const std::string kind = type == "bf16" ? "u" : type.substr(0, 1), size = std::to_string(width(type));
    std::string head = "{'descr': '" + std::string(size == "1" ? "|" : "<") + kind + size +
                       "', 'fortran_order': False, 'shape': (" + std::to_string(elements) + ",), }";
    head.resize((head.size() + 11 + 63) / 64 * 64 - 11, ' ');
    head += '\n';
    const auto length = static_cast<unsigned short>(head.size());
    std::ofstream file(path, std::ios::binary);
    file.write("\x93NUMPY\x01\x00", 8);
    file.write(reinterpret_cast<const char*>(&length), 2);
    file << head;
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  Memory& memory;
  std::string where;
  std::ostringstream head, params;
  std::vector<Buffer> described;
  std::vector<Area> used;
  std::set<std::string> names;
  std::map<std::string, std::string> types;
};

// CAPTURE_FOLDER/NAME, made.
inline std::string folder(const std::string& name) {
  const std::string all = setting("CAPTURE_FOLDER", "launches");
  mkdir(all.c_str(), 0777);
  mkdir((all + "/" + name).c_str(), 0777);
  return all + "/" + name;
}

// Whether CAPTURE_ONLY, a part of the names of kernels, asks for this one.
inline bool wanted(const std::string& kernel) { return kernel.find(setting("CAPTURE_ONLY", "")) != std::string::npos; }

}  // namespace launch_file

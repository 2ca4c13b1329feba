"""Certificates for one test, made by openssl."""
import os
import subprocess


class Authority:
    def __init__(self, folder, name="ca"):
        self.folder, self.name = folder, name
        self.certificate, self.key = self.path(name + ".crt"), self.path(name + ".key")
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                      "-subj", "/CN=" + name, "-addext", "keyUsage=critical,keyCertSign,cRLSign",     # Python 3.13 wants it
                      "-keyout", self.key, "-out", self.certificate)

    def path(self, name):
        return os.path.join(self.folder, name)

    @staticmethod
    def _openssl(*args):
        subprocess.run(("openssl",) + args, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def issue(self, name, host="gw.test"):
        """(certificate, key) for that host."""
        crt, key, csr, ext = (self.path(name + suffix) for suffix in (".crt", ".key", ".csr", ".ext"))
        with open(ext, "w", encoding="ascii") as f:
            f.write("subjectAltName=DNS:%s,IP:127.0.0.1\n" % host)
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=" + name,
                      "-keyout", key, "-out", csr)
        self._openssl("x509", "-req", "-in", csr, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-days", "2",
                      "-extfile", ext, "-out", crt)
        return crt, key
